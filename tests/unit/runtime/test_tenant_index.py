"""The read model of tenants: keys are found, new ones at once, and an outage locks nobody out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from doors import until
from records import NOW
from unit.contracts.test_keys import make_key, make_tenant
from vitascope.adapters.memory import HeldTime, MemoryBroker, MemoryObjectStore
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.tenants import add_key, revoke_key
from vitascope.runtime import tenant_index
from vitascope.runtime.tenant_index import TenantIndex
from vitascope.runtime.tenants import KeptTenants, StampedTenant


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def book(broker: MemoryBroker) -> KeptTenants:
    return KeptTenants(broker.tenants, MemoryObjectStore(), HeldTime())


@asynccontextmanager
async def following(index: TenantIndex) -> AsyncIterator[None]:
    task = asyncio.create_task(index.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_key_is_found_with_its_tenant(book: KeptTenants) -> None:
    """By its digest; another digest is nobody's."""
    tenant = await book.create(make_tenant(make_key(1)[1], make_key(2)[1]))
    index = TenantIndex(book)
    async with following(index):
        assert (tenant, make_key(2)[1]) == await index.find_key(make_key(2)[1].sha256)
        assert await index.find_key(make_key(3)[1].sha256) is None
        assert [tenant] == index.list_all()


async def test_a_key_made_elsewhere_is_known_at_once(book: KeptTenants) -> None:
    """Whoever was answered with a new key can use it at any replica: it is waited for."""
    await book.create(make_tenant())
    index = TenantIndex(book)
    async with following(index):
        await index.catch_up()
        for number in range(20):
            key = make_key(number)[1]
            await book.change("acme", lambda tenant, key=key: add_key(tenant, key))
            assert await index.find_key(key.sha256) is not None


async def test_a_revoked_key_is_gone(book: KeptTenants) -> None:
    """As soon as the change is here."""
    key = make_key(1)[1]
    await book.create(make_tenant(key))
    index = TenantIndex(book)
    async with following(index):
        await index.catch_up()
        await book.change("acme", lambda tenant: revoke_key(tenant, key.id))
        await index.catch_up()
        assert await index.find_key(key.sha256) is None


def test_an_older_document_is_no_news() -> None:
    """After a gap everything comes again."""
    index = TenantIndex(KeptTenants(MemoryBroker().tenants, MemoryObjectStore(), HeldTime()))
    old, new = make_tenant(make_key(1)[1]), make_tenant(make_key(2)[1])
    index.apply(StampedTenant(new, 2))
    index.apply(StampedTenant(old, 1))
    assert new == index.find("acme")


async def test_known_keys_are_good_in_an_outage(broker: MemoryBroker, book: KeptTenants) -> None:
    """Of an unknown one nothing can be said."""
    await book.create(make_tenant(make_key(1)[1]))
    index = TenantIndex(book)
    async with following(index):
        await index.catch_up()
        broker.set_connected(connected=False)
        assert await index.find_key(make_key(1)[1].sha256) is not None
        with pytest.raises(VitascopeError) as caught:
            await index.find_key(make_key(2)[1].sha256)
    assert FailureCode.BUS_UNAVAILABLE is caught.value.code


async def test_a_lost_bucket_locks_nobody_out(broker: MemoryBroker, book: KeptTenants) -> None:
    """Neither at a replica that knew the tenants, nor at a new one, which fills the bucket first."""
    await book.create(make_tenant(make_key(1)[1]))
    old = TenantIndex(book)
    async with following(old):
        await old.catch_up()
        broker.lose()
        assert await old.find_key(make_key(1)[1].sha256) is not None
        new = TenantIndex(book)
        async with following(new):
            assert await new.find_key(make_key(1)[1].sha256) is not None


async def test_a_replica_that_has_not_read_the_tenants_says_so(
    broker: MemoryBroker, book: KeptTenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not call a key wrong that it could not know."""
    monkeypatch.setattr(tenant_index, "CATCH_UP_S", 0.0)
    with pytest.raises(VitascopeError) as caught:
        await TenantIndex(book).find_key(make_key(1)[1].sha256)
    assert FailureCode.SERVICE_UNAVAILABLE is caught.value.code
    assert broker.bus.is_connected()


async def test_a_flood_of_wrong_keys_asks_little(book: KeptTenants, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those who come at once share the questions to the server."""
    await book.create(make_tenant())
    index, asked = TenantIndex(book), 0
    real = book.get_revision

    async def count() -> int:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0)
        return await real()

    monkeypatch.setattr(book, "get_revision", count)
    async with following(index):
        await index.catch_up()
        found = await asyncio.gather(*(index.find_key(f"{number:064x}") for number in range(1000)))
    assert {None} == set(found)
    assert 4 > asked


async def test_it_goes_on_after_an_outage(
    broker: MemoryBroker, book: KeptTenants, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica that starts while the server is away reads the tenants once it is back."""
    await book.create(make_tenant())
    monkeypatch.setattr(tenant_index, "RETRY_S", 0.0)
    broker.set_connected(connected=False)
    index = TenantIndex(book)
    async with following(index):
        await asyncio.sleep(0)
        broker.set_connected(connected=True)
        await until(lambda: index.find("acme"))
    assert NOW == index.list_all()[0].created
