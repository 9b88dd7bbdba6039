"""What clients see of expiry: when it will be, and that it was."""

from datetime import datetime, timedelta

import httpx

from doors import JOBS, World, read_error, submit
from vitascope.contracts import transitions
from vitascope.runtime.settings import S3Settings

RETENTION = S3Settings().retention


async def test_only_an_ended_job_says_when_its_files_go(world: World, client: httpx.AsyncClient) -> None:
    """Null while it is alive."""
    job = (await submit(client))["id"]
    assert (await client.get(f"{JOBS}/{job}")).json()["expires_at"] is None
    await world.finish(job)
    view = (await client.get(f"{JOBS}/{job}")).json()
    assert world.time.now() + RETENTION.files == datetime.fromisoformat(view["expires_at"])


async def test_an_expired_job_is_remembered_without_its_result(world: World, client: httpx.AsyncClient) -> None:
    """Shown and listed with the moment at which it was; its content is gone."""
    job = (await submit(client))["id"]
    record = (await world.finish(job)).record
    world.time.advance(RETENTION.files.total_seconds())
    await world.change(job, transitions.expire(record, world.time.now()))
    view = (await client.get(f"{JOBS}/{job}")).json()
    assert ("expired", None) == (view["status"], view["result"])
    assert world.time.now() == datetime.fromisoformat(view["expires_at"])
    read_error(await client.get(f"{JOBS}/{job}/content"), 410, "content_expired")
    assert [job] == [entry["id"] for entry in (await client.get(JOBS, params={"status": "expired"})).json()["data"]]


async def test_a_url_says_that_it_lasts_no_longer_than_its_file(world: World, client: httpx.AsyncClient) -> None:
    """Signed ten minutes before the file goes, it opens for an hour, but only nominally."""
    job = (await submit(client))["id"]
    await world.finish(job)
    left = timedelta(minutes=10)
    world.time.advance((RETENTION.files - left).total_seconds())
    view = (await client.get(f"{JOBS}/{job}")).json()
    assert world.time.now() + left == datetime.fromisoformat(view["result"]["urls_expire_at"])


async def test_a_forgotten_job_is_unknown(world: World, client: httpx.AsyncClient) -> None:
    """404, and not in the list."""
    job = (await submit(client))["id"]
    await world.broker.ledger.forget(await world.load(job))
    read_error(await client.get(f"{JOBS}/{job}"), 404, "not_found")
    assert [] == (await client.get(JOBS)).json()["data"]
