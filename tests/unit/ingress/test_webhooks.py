"""Webhooks through the door: made with a secret that is shown once, changed, rotated, deleted."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from doors import JOBS, PROMPT, World, open_door, read_error, submit
from vitascope.contracts.webhooks import END_EVENTS, JOB_EVENTS, MAX_SUBSCRIPTIONS

WEBHOOKS = "/v1/webhooks"
URL = "http://93.184.215.14/hook"
"""An address of the public internet: nothing is looked up, and nothing sent to it here."""


@pytest_asyncio.fixture
async def client(world: World) -> AsyncIterator[httpx.AsyncClient]:
    async with open_door(world.make_app()) as opened:
        yield opened


async def create(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    response = await client.post(WEBHOOKS, json={"url": URL} | body)
    assert 201 == response.status_code, response.text
    view: dict[str, Any] = response.json()
    assert f"{WEBHOOKS}/{view['id']}" == response.headers["location"]
    return view


async def test_a_webhook_is_made_and_shown(client: httpx.AsyncClient) -> None:
    """The secret is in the first answer and in no other."""
    made = await create(client, description="billing")
    assert made.pop("secret").startswith("whsec_")
    assert (URL, "billing", list(END_EVENTS), True, None, 1) == tuple(
        made[name] for name in ("url", "description", "events", "enabled", "failing_since", "secrets")
    )
    assert made == (await client.get(f"{WEBHOOKS}/{made['id']}")).json()
    listed = await client.get(WEBHOOKS)
    assert [made] == listed.json()["data"]
    assert "whsec_" not in listed.text


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "url"),
        ({"url": 7}, "url"),
        ({"url": URL, "events": []}, "events"),
        ({"url": URL, "events": ["job.exploded"]}, "events.0"),
        ({"url": URL, "description": "d" * 201}, "description"),
        ({"url": "http://93.184.215.14/" + "x" * 1024}, "url"),
    ],
    ids=["no url", "url is no text", "no events", "unknown event", "long description", "long url"],
)
async def test_bodies_that_are_refused(client: httpx.AsyncClient, body: dict[str, Any], param: str) -> None:
    """The field is named, and nothing is made."""
    error = read_error(await client.post(WEBHOOKS, json=body), 400, "invalid_request")
    assert param == error["param"]
    assert [] == (await client.get(WEBHOOKS)).json()["data"]


async def test_unknown_field_is_refused(client: httpx.AsyncClient) -> None:
    """It is not dropped."""
    read_error(await client.post(WEBHOOKS, json={"url": URL, "secret": "mine"}), 400, "unknown_field")


@pytest.mark.parametrize(
    "url",
    ["http://127.0.0.1/x", "http://169.254.169.254/latest", "http://[::1]/", "http://10.1.2.3/", "file:///etc/passwd"],
)
async def test_addresses_inside_are_refused(client: httpx.AsyncClient, url: str) -> None:
    """When a webhook is made, and when it is changed."""
    read_error(await client.post(WEBHOOKS, json={"url": url}), 400, "address_not_allowed")
    made = await create(client)
    response = await client.patch(f"{WEBHOOKS}/{made['id']}", json={"url": url})
    read_error(response, 400, "address_not_allowed")
    assert URL == (await client.get(f"{WEBHOOKS}/{made['id']}")).json()["url"]


async def test_too_many_are_refused(client: httpx.AsyncClient) -> None:
    """A tenant's document is bounded."""
    for _ in range(MAX_SUBSCRIPTIONS):
        await create(client)
    read_error(await client.post(WEBHOOKS, json={"url": URL}), 400, "invalid_request")


async def test_what_is_named_is_changed(client: httpx.AsyncClient) -> None:
    """And the rest stays."""
    made = await create(client, description="billing")
    path = f"{WEBHOOKS}/{made['id']}"
    changed = (await client.patch(path, json={"events": ["job.failed", "job.failed"]})).json()
    assert (["job.failed"], "billing", URL) == tuple(changed[name] for name in ("events", "description", "url"))
    changed = (await client.patch(path, json={"enabled": False, "url": f"{URL}/2"})).json()
    assert (False, f"{URL}/2", "It was switched off.") == tuple(
        changed[name] for name in ("enabled", "url", "disabled_reason")
    )
    changed = (await client.patch(path, json={"enabled": True})).json()
    assert (True, None) == (changed["enabled"], changed["disabled_reason"])


async def test_secret_is_replaced(client: httpx.AsyncClient) -> None:
    """Two sign for a day; the old one is not shown again."""
    made = await create(client)
    rotated = await client.post(f"{WEBHOOKS}/{made['id']}/rotate")
    assert 201 == rotated.status_code
    fresh = rotated.json()
    assert fresh["secret"].startswith("whsec_")
    assert made["secret"] != fresh["secret"]
    assert fresh["old_secrets_sign_until"] is not None
    assert 2 == (await client.get(f"{WEBHOOKS}/{made['id']}")).json()["secrets"]


async def test_callback_secret_is_the_tenants(client: httpx.AsyncClient) -> None:
    """Made when first asked for, the same ever after, until it is replaced."""
    path = f"{WEBHOOKS}/callback/secret"
    first = (await client.get(path)).json()
    assert (first["secret"][:6], None) == ("whsec_", first["old_secrets_sign_until"])
    assert first == (await client.get(path)).json()
    fresh = (await client.post(f"{WEBHOOKS}/callback/rotate")).json()
    assert first["secret"] != fresh["secret"]
    assert fresh == (await client.get(path)).json()


async def test_deleted_webhook_is_gone(client: httpx.AsyncClient) -> None:
    """A second time it is not found."""
    made = await create(client)
    path = f"{WEBHOOKS}/{made['id']}"
    assert 204 == (await client.delete(path)).status_code
    read_error(await client.delete(path), 404, "not_found")
    assert [] == (await client.get(WEBHOOKS)).json()["data"]


UNKNOWN = f"{WEBHOOKS}/wh_01ARZ3NDEKTSV4RRFFQ69G5FAV"


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "", None),
        ("PATCH", "", {"description": "x"}),
        ("DELETE", "", None),
        ("POST", "/rotate", None),
        ("POST", "/test", None),
        ("GET", "/deliveries", None),
        ("GET", "/deliveries/wd_01ARZ3NDEKTSV4RRFFQ69G5FAV", None),
        ("POST", "/deliveries/wd_01ARZ3NDEKTSV4RRFFQ69G5FAV/replay", None),
        ("POST", "/replay", {"since": "2026-01-01T00:00:00Z"}),
    ],
)
async def test_unknown_webhook_is_not_found(client: httpx.AsyncClient, method: str, path: str, body: object) -> None:
    """On every route; `callback` alone is known to all that have a log."""
    read_error(await client.request(method, f"{UNKNOWN}{path}", json=body), 404, "not_found")


async def test_every_event_can_be_asked_for(client: httpx.AsyncClient) -> None:
    """As the description of the API lists them."""
    assert list(JOB_EVENTS) == (await create(client, events=list(JOB_EVENTS)))["events"]


@pytest.mark.parametrize(
    ("url", "code"),
    [("http://127.0.0.1:9/x", "address_not_allowed"), ("http://[::ffff:10.0.0.1]/", "address_not_allowed")],
    ids=["loopback", "mapped private"],
)
async def test_callback_address_is_checked_before_there_is_a_job(
    client: httpx.AsyncClient, world: World, url: str, code: str
) -> None:
    """The field is named; a public address is taken."""
    error = read_error(await client.post(JOBS, json=PROMPT | {"callback_url": url}), 400, code)
    assert "callback_url" == error["param"]
    assert 0 == await world.count_jobs()
    assert URL == (await submit(client, callback_url=URL))["callback_url"]
