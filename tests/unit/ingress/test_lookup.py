"""Finding a job: a stranger's takes the same steps as one that never was, so that the time taken tells nothing."""

from typing import Any

import httpx
import pytest

from doors import JOBS, World, open_door, read_error
from tenancy import ADMIN_KEY, bearer, make_tenant
from vitascope.contracts.ids import make_job_id


class Counted:
    """A port whose calls are counted by name."""

    def __init__(self, port: Any) -> None:
        self._port, self.calls = port, list[str]()

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._port, name)


async def count_steps(client: httpx.AsyncClient, ledger: Counted, path: str, key: str) -> list[str]:
    ledger.calls.clear()
    read_error(await client.get(path, headers=bearer(key)), 404, "not_found")
    return list(ledger.calls)


@pytest.mark.parametrize("suffix", ["", "/content", "/events", "/params"])
async def test_a_strangers_job_takes_the_steps_of_none(world: World, suffix: str) -> None:
    """The same questions to the ledger, in the same order."""
    ledger = Counted(world.broker.ledger)
    async with open_door(world.make_app(ledger=ledger, api_key=ADMIN_KEY)) as client:  # type: ignore[arg-type]  # a port
        key = await make_tenant(client, "acme")
        job = (await client.post(JOBS, json={"prompt": "mine"}, headers=bearer(ADMIN_KEY))).json()["id"]
        strange = await count_steps(client, ledger, f"{JOBS}/{job}{suffix}", key)
        never = await count_steps(client, ledger, f"{JOBS}/{make_job_id(world.time.now())}{suffix}", key)
    assert never == strange
    assert "get" in strange
