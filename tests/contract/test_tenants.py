"""What every bucket of tenants promises."""

import asyncio

import pytest

from contract.nats_process import NatsProcess
from contract.real import Ports, RealPorts
from contract.waiting import until_true as until
from records import NOW
from vitascope.contracts.tenants import Tenant
from vitascope.runtime.ports import Conflict
from vitascope.runtime.tenants import StampedTenant, TenantTable


def make_tenant(name: str, **changes: object) -> Tenant:
    return Tenant(name=name, created=NOW).model_copy(update=changes)


async def test_what_was_created_is_read(ports: Ports, unique: str) -> None:
    """With the revision that a change of it must name."""
    created = await ports.tenants.create(make_tenant(unique))
    assert created == await ports.tenants.get(unique)
    assert make_tenant(unique) == created.tenant


async def test_what_is_not_there_is_none(ports: Ports, unique: str) -> None:
    """No tenant, no error."""
    assert await ports.tenants.get(unique) is None


async def test_a_name_is_taken_once(ports: Ports, unique: str) -> None:
    """Of ten that create a tenant at once one wins."""
    creates = [ports.tenants.create(make_tenant(unique, weight=float(weight))) for weight in range(1, 11)]
    results = await asyncio.gather(*creates, return_exceptions=True)
    won = [result for result in results if isinstance(result, StampedTenant)]
    assert won == [await ports.tenants.get(unique)]
    assert 9 == sum(isinstance(result, Conflict) for result in results)


async def test_an_old_document_is_not_replaced_twice(ports: Ports, unique: str) -> None:
    """Compare-and-set: who read before another's change must read again."""
    first = await ports.tenants.create(make_tenant(unique))
    second = await ports.tenants.replace(first, make_tenant(unique, weight=2.0))
    assert second.revision > first.revision
    with pytest.raises(Conflict):
        await ports.tenants.replace(first, make_tenant(unique, weight=3.0))
    assert second == await ports.tenants.get(unique)


async def test_a_watcher_sees_all_and_then_each_change(ports: Ports, unique: str) -> None:
    """First what is there, then None, then what comes; of one tenant never an older after a newer one."""
    first = await ports.tenants.create(make_tenant(unique))
    seen: list[StampedTenant | None] = []

    async def follow(table: TenantTable) -> None:
        async with table.watch() as changes:
            async for stamped in changes:
                seen.append(stamped)  # noqa: PERF401 (it never ends by itself)

    following = asyncio.create_task(follow(ports.tenants))
    try:
        await until(lambda: None in seen)
        assert first in seen[: seen.index(None)]
        second = await ports.tenants.replace(first, make_tenant(unique, weight=2.0))
        await until(lambda: second in seen)
        assert seen.index(second) > seen.index(None)
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def test_who_has_seen_the_revision_has_seen_all(ports: Ports, unique: str) -> None:
    """It is that of the newest change of any tenant."""
    created = await ports.tenants.create(make_tenant(unique))
    assert created.revision == await ports.tenants.get_revision()
    other = await ports.tenants.create(make_tenant(f"{unique}-x"))
    assert other.revision == await ports.tenants.get_revision()


async def test_an_empty_bucket_has_no_revision(own_ports: RealPorts, server: NatsProcess) -> None:
    """A new bucket begins at a high sequence, which nobody could ever see; a restart changes nothing."""
    assert 0 == await own_ports.tenants.get_revision()
    birth = await own_ports.tenants.get_birth()
    created = await own_ports.tenants.create(make_tenant("acme"))
    await server.kill()
    await server.start()
    await until(own_ports.bus.is_connected)
    assert created == await own_ports.tenants.get("acme")
    assert birth == await own_ports.tenants.get_birth()
