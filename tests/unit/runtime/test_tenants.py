"""The tenants' bucket and the copies of it: nothing answered is lost, whatever is lost and whoever dies."""

import asyncio
from collections.abc import Callable

import pytest

from doors import Crash, Faulty
from records import NOW
from vitascope.adapters.memory import HeldTime, MemoryBroker, MemoryObjectStore
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.objects import tenant_key
from vitascope.contracts.tenants import DEFAULT_TENANT, Tenant
from vitascope.runtime.tenants import KeptTenants


@pytest.fixture
def broker() -> MemoryBroker:
    return MemoryBroker()


@pytest.fixture
def store() -> MemoryObjectStore:
    return MemoryObjectStore()


@pytest.fixture
def book(broker: MemoryBroker, store: MemoryObjectStore) -> KeptTenants:
    return KeptTenants(broker.tenants, store, HeldTime())


def acme(weight: float = 1.0) -> Tenant:
    return Tenant(name="acme", created=NOW, weight=weight)


def add(amount: float) -> Callable[[Tenant], Tenant]:
    return lambda tenant: tenant.model_copy(update={"weight": tenant.weight + amount})


async def load_copy(store: MemoryObjectStore) -> Tenant:
    return Tenant.from_bytes(await store.get(tenant_key("acme")))


async def test_a_change_is_in_the_bucket_and_in_the_copy(book: KeptTenants, store: MemoryObjectStore) -> None:
    """Once it is answered."""
    await book.create(acme())
    assert acme(3.0) == await book.change("acme", add(2.0))
    assert acme(3.0) == await book.get("acme")
    assert acme(3.0) == await load_copy(store)


async def test_changes_at_once_are_all_made(book: KeptTenants, store: MemoryObjectStore) -> None:
    """Who was slower reads again; the copy ends as the bucket does."""
    await book.create(acme())
    await asyncio.gather(*(book.change("acme", add(1.0)) for _ in range(8)))
    assert acme(9.0) == await book.get("acme")
    assert acme(9.0) == await load_copy(store)


async def test_a_name_is_taken_once(book: KeptTenants, store: MemoryObjectStore) -> None:
    """And the copy of who had it first stays."""
    await book.create(acme())
    with pytest.raises(VitascopeError) as caught:
        await book.create(acme(5.0))
    assert FailureCode.ALREADY_EXISTS is caught.value.code
    assert acme() == await load_copy(store)


async def test_twins_of_a_name_leave_the_winners_copy(broker: MemoryBroker, store: MemoryObjectStore) -> None:
    """Two replicas create it at once."""
    books = [KeptTenants(broker.tenants, store, HeldTime()) for _ in range(2)]
    results = await asyncio.gather(
        *(book.create(acme(weight)) for book, weight in zip(books, (1.0, 2.0), strict=True)), return_exceptions=True
    )
    assert 1 == sum(isinstance(result, Tenant) for result in results)
    assert await books[0].get("acme") == await load_copy(store)


async def test_a_refused_change_changes_nothing(book: KeptTenants, store: MemoryObjectStore) -> None:
    """Neither bucket nor copy, also if it is refused only when it is tried again."""
    await book.create(acme())
    calls = 0

    def refuse_later(tenant: Tenant) -> Tenant:
        nonlocal calls
        calls += 1
        if calls == 1:
            return add(10.0)(tenant)
        raise VitascopeError(FailureCode.INVALID_REQUEST)

    slow = asyncio.create_task(book.change("acme", refuse_later))
    await asyncio.gather(book.change("acme", add(1.0)), slow, return_exceptions=True)
    assert await book.get("acme") == await load_copy(store)


@pytest.mark.parametrize("name", ["acme", "nobody"])
async def test_an_unknown_tenant_cannot_be_changed(book: KeptTenants, name: str) -> None:
    """It has to be created."""
    with pytest.raises(VitascopeError) as caught:
        await book.change(name, add(1.0))
    assert FailureCode.NOT_FOUND is caught.value.code
    assert await book.get(name) is None


async def test_the_default_tenant_is_there_without_a_document(book: KeptTenants) -> None:
    """It gets one with its first change, and cannot be created."""
    default = await book.get(DEFAULT_TENANT)
    assert default is not None
    assert 1.0 == default.weight
    assert 3.0 == (await book.change(DEFAULT_TENANT, add(2.0))).weight
    with pytest.raises(VitascopeError):
        await book.create(default)


async def test_a_lost_bucket_is_filled_from_the_copies(
    book: KeptTenants, broker: MemoryBroker, store: MemoryObjectStore
) -> None:
    """By the next one who looks for a tenant that is not there, be it this replica or a new one."""
    await book.create(acme(2.0))
    await book.change(DEFAULT_TENANT, add(1.0))
    broker.lose()
    assert 2 == await KeptTenants(broker.tenants, store, HeldTime()).restore()
    assert acme(2.0) == await book.get("acme")
    broker.lose()
    assert acme(3.0) == await book.change("acme", add(1.0))
    assert 2.0 == (await book.change(DEFAULT_TENANT, lambda tenant: tenant)).weight


async def test_a_whole_bucket_is_left_alone(book: KeptTenants, store: MemoryObjectStore) -> None:
    """The bucket is the truth: an older copy does not come back over it, and is not read again and again."""
    await book.create(acme(2.0))
    assert 0 == await book.restore()
    await store.put(tenant_key("other"), Tenant(name="other", created=NOW).to_bytes(), "application/json")
    assert 0 == await book.restore()


@pytest.mark.parametrize(
    "content", [pytest.param(b"{", id="broken"), pytest.param(acme().to_bytes(), id="another-tenants")]
)
async def test_a_copy_that_cannot_be_used_keeps_nobody_else_out(
    book: KeptTenants, broker: MemoryBroker, store: MemoryObjectStore, content: bytes
) -> None:
    """It is left for people to look at."""
    await book.create(acme(2.0))
    await store.put(tenant_key("a-first"), content, "application/json")
    broker.lose()
    assert 1 == await book.restore()
    assert acme(2.0) == await book.get("acme")


@pytest.mark.parametrize("method", ["create", "replace"])
async def test_nothing_answered_is_lost_by_a_death(
    book: KeptTenants, broker: MemoryBroker, store: MemoryObjectStore, method: str
) -> None:
    """Who dies after the bucket took the change had the copy written before: a loss of the bucket costs nothing."""
    if method == "replace":
        await book.create(acme())
    dying = KeptTenants(Faulty(broker.tenants, method, Crash(), is_after=True), store, HeldTime())
    with pytest.raises(Crash):
        await (dying.create(acme(2.0)) if method == "create" else dying.change("acme", add(1.0)))
    broker.lose()
    assert acme(2.0) == await book.get("acme")


async def test_a_store_that_is_away_keeps_the_bucket_as_it_was(
    broker: MemoryBroker, store: MemoryObjectStore, book: KeptTenants
) -> None:
    """Without its copy no change is made."""
    await book.create(acme())
    away = Faulty(store, "put", VitascopeError(FailureCode.STORE_UNAVAILABLE))
    with pytest.raises(VitascopeError):
        await KeptTenants(broker.tenants, away, HeldTime()).change("acme", add(1.0))
    assert acme() == await book.get("acme")
