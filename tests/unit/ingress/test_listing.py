"""`GET /v1/video-jobs`: pages, filters, and the cursor while jobs come and end."""

import httpx
import pytest
from fastapi import FastAPI

from doors import JOBS, World, get_door, open_door, read_error, submit


async def _ids(client: httpx.AsyncClient, **query: object) -> list[str]:
    response = await client.get(JOBS, params=query)  # type: ignore[arg-type]  # numbers and lists, as httpx takes them
    assert response.status_code == 200, response.text
    return [view["id"] for view in response.json()["data"]]


async def test_an_empty_list_is_a_list(client: httpx.AsyncClient) -> None:
    """No jobs, no cursor, no more."""
    wanted = {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}
    assert wanted == (await client.get(JOBS)).json()


async def test_a_list_is_newest_first_in_pages(world: World, client: httpx.AsyncClient) -> None:
    """A page names its ends; items are whole jobs."""
    made = []
    for _ in range(3):
        made.append((await submit(client))["id"])
        world.time.advance(1)
    page = (await client.get(JOBS, params={"limit": 2})).json()
    assert (made[2], made[1], True) == (page["first_id"], page["last_id"], page["has_more"])
    assert page["data"][0] == (await client.get(f"{JOBS}/{made[2]}")).json()
    assert [made[0]] == await _ids(client, limit=2, after=page["last_id"])
    assert made == await _ids(client, order="asc")


async def test_jobs_made_between_two_pages_repeat_nobody(world: World, client: httpx.AsyncClient) -> None:
    """The cursor is a place in time: newer jobs stand before it."""
    old = [(await submit(client))["id"] for _ in range(4)]
    first = await _ids(client, limit=2)
    world.time.advance(1)
    await submit(client)
    await client.post(f"{JOBS}/{first[1]}/cancel")
    assert set(old) == {*first, *await _ids(client, limit=2, after=first[1])}


async def test_filters_by_status(world: World, client: httpx.AsyncClient) -> None:
    """One status or several."""
    waiting, running, done = [(await submit(client))["id"] for _ in range(3)]
    await world.start(running)
    await world.finish(done)
    assert [running] == await _ids(client, status="running")
    assert {waiting, done} == set(await _ids(client, status=["queued", "succeeded"]))
    assert [] == await _ids(client, status="failed")


async def test_filters_by_tier_label_and_time(world: World, client: httpx.AsyncClient) -> None:
    """Alone and together; times are exclusive and have a zone."""
    first = await submit(client, tier="batch", labels={"project": "a", "shot": "1"})
    world.time.advance(60)
    second = await submit(client, tier="interactive", labels={"project": "a=b &c"})
    world.time.advance(60)
    third = await submit(client, tier="batch")
    one, two, three = (view["id"] for view in (first, second, third))
    assert [three, one] == await _ids(client, tier="batch")
    assert [three, two, one] == await _ids(client, tier=["batch", "interactive"])
    assert [two, one] == await _ids(client, label="project")
    assert [one] == await _ids(client, label=["project=a", "shot"])
    assert [two] == await _ids(client, label="project=a=b &c")
    assert [three, two] == await _ids(client, created_after=first["created_at"])
    assert [two] == await _ids(client, created_after=first["created_at"], created_before=third["created_at"])
    assert [two, one] == await _ids(client, created_before=third["created_at"], limit=2)
    assert [one] == await _ids(client, tier="batch", label="project", status="queued", order="asc")


async def test_a_page_that_found_nothing_yet_says_where_to_go_on(
    world: World, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter that few jobs pass is worked off in pieces, none of which holds the replica up."""
    monkeypatch.setattr("vitascope.runtime.job_index.MAX_SCANNED", 2)
    wanted = (await submit(client, tier="batch"))["id"]
    for _ in range(5):
        world.time.advance(1)
        await submit(client)
    found: list[str] = []
    after: dict[str, str] = {}
    for _ in range(9):
        page = (await client.get(JOBS, params={"tier": "batch"} | after)).json()
        found += [view["id"] for view in page["data"]]
        if not page["has_more"]:
            break
        after = {"after": page["last_id"]}
    assert [wanted] == found


@pytest.mark.parametrize(
    ("query", "code", "param"),
    [
        pytest.param({"tier": "gold"}, "invalid_request", "tier", id="tier"),
        pytest.param({"label": "=a"}, "invalid_request", "label", id="label"),
        pytest.param({"label": ["a"] * 17}, "invalid_request", "label", id="labels"),
        pytest.param({"created_after": "2026-01-01T00:00:00"}, "invalid_request", "created_after", id="no-zone"),
        pytest.param({"created_before": "soon"}, "invalid_request", "created_before", id="no-time"),
        pytest.param({"x" * 99: "1"}, "unknown_field", "x" * 64, id="long-name"),
        pytest.param({"limit": "0"}, "invalid_request", "limit", id="limit-nought"),
        pytest.param({"limit": "101"}, "invalid_request", "limit", id="limit-above"),
        pytest.param({"limit": "ten"}, "invalid_request", "limit", id="limit-word"),
        pytest.param({"order": "up"}, "invalid_request", "order", id="order"),
        pytest.param({"status": "done"}, "invalid_request", "status", id="status"),
        pytest.param({"after": "vj_1"}, "invalid_request", "after", id="after"),
        pytest.param({"after": "vj_01KDVDNA00W52FRFC30J36F36P\n"}, "invalid_request", "after", id="after-line-feed"),
        pytest.param({"state": "queued"}, "unknown_field", "state", id="unknown"),
    ],
)
async def test_wrong_parameters_are_named(
    client: httpx.AsyncClient, query: dict[str, str], code: str, param: str
) -> None:
    """A filter that is not understood is refused: a list that ignores it would be wrong."""
    assert param == read_error(await client.get(JOBS, params=query), 400, code)["param"]


async def test_a_replica_that_still_reads_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """503 rather than a list with holes."""
    monkeypatch.setattr("vitascope.ingress.listing.SYNC_TIMEOUT_S", 0.0)
    app = world.make_app()
    transport = httpx.ASGITransport(app=app)  # its followers never start
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        read_error(await client.get(JOBS), 503, "service_unavailable")


async def test_a_job_that_is_gone_from_the_ledger_is_not_listed(world: World, app: FastAPI) -> None:
    """The index forgets what the ledger has lost."""
    async with open_door(app) as client:
        job = (await submit(client))["id"]
        world.broker.ledger._feed.values.clear()
        assert [] == await _ids(client)
        assert () == get_door(app).jobs.find_page("default", ("queued",), limit=5).ids  # type: ignore[arg-type]
        read_error(await client.get(f"{JOBS}/{job}"), 404, "not_found")
