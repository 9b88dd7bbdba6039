"""The log of webhooks through the door: pages, tests and replays."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest_asyncio

from doors import World, open_door, read_error
from hooks import delivery
from vitascope.contracts.deliveries import Attempt, Delivery, DeliveryState, end_dead, note_last, note_success
from vitascope.contracts.webhooks import CALLBACK

WEBHOOKS = "/v1/webhooks"
MINUTE = timedelta(minutes=1)


@pytest_asyncio.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with open_door(world.make_app()) as opened:
        yield opened


async def create(client: httpx.AsyncClient) -> str:
    webhook: str = (await client.post(WEBHOOKS, json={"url": "http://93.184.215.14/hook"})).json()["id"]
    return webhook


async def add(world: World, target: str, state: DeliveryState, minutes: int = 0, **more: Any) -> Delivery:
    """A delivery of an event that was so long ago, in that state."""
    at = world.time.now() - minutes * MINUTE
    row = delivery(target, now=at, **more)
    attempt = Attempt(at=at, ms=5, status_code=500)
    ends = {
        DeliveryState.DELIVERED: note_success(row, attempt, at),
        DeliveryState.DEAD: note_last(row, attempt, "No.", at),
    }
    await world.broker.deliveries.add(ends.get(state, row))
    return ends.get(state, row)


async def read(client: httpx.AsyncClient, path: str, **query: Any) -> dict[str, Any]:
    response = await client.get(f"{WEBHOOKS}/{path}", params=query)
    assert 200 == response.status_code, response.text
    view: dict[str, Any] = response.json()
    return view


async def test_log_shows_tries_and_no_bodies(client: httpx.AsyncClient, world: World) -> None:
    """Status, time taken, and why it ended; not what was sent, and where a callback goes."""
    webhook = await create(client)
    row = await add(world, webhook, DeliveryState.DEAD)
    (shown,) = (await read(client, f"{webhook}/deliveries"))["data"]
    assert shown == await read(client, f"{webhook}/deliveries/{row.id}")
    assert (row.event_id, row.job, "dead", "No.", webhook) == tuple(
        shown[name] for name in ("event_id", "job", "status", "reason", "webhook")
    )
    (attempt,) = shown["attempts"]
    assert (500, 5, None) == tuple(attempt[name] for name in ("status_code", "ms", "error"))
    assert not {"body", "url"} & shown.keys()


async def test_pages_of_the_log(client: httpx.AsyncClient, world: World) -> None:
    """The newest first; each delivery on one page, with a filter and without."""
    webhook = await create(client)
    states = [DeliveryState.PENDING, DeliveryState.DEAD, DeliveryState.DELIVERED] * 7
    rows = [await add(world, webhook, state, minutes) for minutes, state in enumerate(states)]
    for status in (None, "dead"):
        seen: list[str] = []
        query: dict[str, Any] = {"limit": 4} | ({"status": status} if status else {})
        for _ in range(20):
            page = await read(client, f"{webhook}/deliveries", **query)
            seen += [row["id"] for row in page["data"]]
            if not page["has_more"]:
                break
            query["after"] = page["last_id"]
        assert [row.id for row in rows if status in {None, row.state.value}] == seen


async def test_log_of_callbacks(client: httpx.AsyncClient, world: World) -> None:
    """Of all jobs that have one, of this tenant."""
    row = await add(world, CALLBACK, DeliveryState.DEAD, url="http://93.184.215.14/secret-path")
    await add(world, CALLBACK, DeliveryState.DEAD, tenant="acme", url="http://93.184.215.14/x")
    page = await read(client, "callback/deliveries")
    assert [row.id] == [shown["id"] for shown in page["data"]]
    assert "secret-path" not in str(page)


async def test_one_delivery_is_made_again(client: httpx.AsyncClient, world: World) -> None:
    """The same message; and once, however often it is asked for."""
    webhook = await create(client)
    row = await add(world, webhook, DeliveryState.DELIVERED)
    path = f"{WEBHOOKS}/{webhook}/deliveries/{row.id}/replay"
    for _ in range(2):
        response = await client.post(path)
        assert (202, "pending", row.event_id) == (
            response.status_code,
            response.json()["status"],
            response.json()["event_id"],
        )
    stored = await world.broker.deliveries.get(row.place)
    assert stored is not None
    assert (True, row.body, 0) == (stored.delivery.is_pending, stored.delivery.body, stored.delivery.tries)


async def test_what_is_dead_since_a_moment_is_made_again(client: httpx.AsyncClient, world: World) -> None:
    """Nothing older, and nothing that arrived."""
    webhook = await create(client)
    dead, old = [await add(world, webhook, DeliveryState.DEAD, minutes) for minutes in (1, 30)]
    arrived = await add(world, webhook, DeliveryState.DELIVERED, 2)
    since = (world.time.now() - 10 * MINUTE).isoformat()
    response = await client.post(f"{WEBHOOKS}/{webhook}/replay", json={"since": since})
    assert {"replayed": 1, "has_more": False} == response.json()
    states = [(await world.broker.deliveries.get(row.place)) for row in (dead, old, arrived)]
    assert [True, False, False] == [found is not None and found.delivery.is_pending for found in states]
    response = await client.post(f"{WEBHOOKS}/{webhook}/replay", json={"since": since, "status": ["delivered"]})
    assert 1 == response.json()["replayed"]


async def test_test_event_is_on_its_way(client: httpx.AsyncClient) -> None:
    """It is a delivery like any other; each request makes a new one."""
    webhook = await create(client)
    views = [(await client.post(f"{WEBHOOKS}/{webhook}/test")).json() for _ in range(2)]
    assert {("webhook.test", "pending", None)} == {(view["event"], view["status"], view["job"]) for view in views}
    assert 2 == len({view["event_id"] for view in views})
    shown = (await read(client, f"{webhook}/deliveries"))["data"]
    assert {view["id"] for view in views} == {view["id"] for view in shown}


async def test_strangers_see_nothing(client: httpx.AsyncClient, world: World) -> None:
    """A delivery of another tenant, or of another webhook, is not found."""
    mine, other = await create(client), await create(client)
    theirs = await add(world, mine, DeliveryState.DEAD, tenant="acme")
    elsewhere = await add(world, other, DeliveryState.DEAD)
    for row in (theirs, elsewhere, end_dead(delivery(mine), "No.", world.time.now())):
        read_error(await client.get(f"{WEBHOOKS}/{mine}/deliveries/{row.id}"), 404, "not_found")
    assert [] == (await read(client, f"{mine}/deliveries"))["data"]


async def test_cursor_and_filter_are_checked(client: httpx.AsyncClient) -> None:
    """A cursor is an id, a status one of ours, and nothing else is taken."""
    webhook = await create(client)
    for query in ({"after": "x"}, {"status": "lost"}, {"limit": 0}, {"offset": 1}):
        response = await client.get(f"{WEBHOOKS}/{webhook}/deliveries", params=query)
        assert 400 == response.status_code, query
