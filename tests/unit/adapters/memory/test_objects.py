"""What a test can do to the store in memory."""

import pytest

from vitascope.adapters.memory import MemoryObjectStore
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.runtime.ports import ObjectStore


async def test_damaged_object_is_corrupt() -> None:
    """Changing what is stored is noticed by who has the reference."""
    store = MemoryObjectStore()
    ref = await store.put("k", b"content", "text/plain")
    store.objects["k"] = b"Content"
    with pytest.raises(VitascopeError) as caught:
        await store.get(ref)
    assert FailureCode.OBJECT_CORRUPT is caught.value.code


async def test_full_store_refuses_puts_only() -> None:
    """What is there can still be read."""
    store = MemoryObjectStore()
    ref = await store.put("k", b"content", "text/plain")
    store.is_full = True
    with pytest.raises(VitascopeError) as caught:
        await store.put("k2", b"x", "text/plain")
    assert FailureCode.STORE_FULL is caught.value.code
    assert b"content" == await store.get(ref)


async def test_store_that_is_away_answers_nothing() -> None:
    """Every call says so."""
    store: ObjectStore = MemoryObjectStore()
    assert isinstance(store, MemoryObjectStore)
    store.is_away = True
    for call in (store.get("k"), store.put("k", b"", "x/y"), store.size("k"), store.list(""), store.remove(["k"])):
        with pytest.raises(VitascopeError) as caught:
            await call
        assert FailureCode.STORE_UNAVAILABLE is caught.value.code
