"""What a test can do to the store in memory."""

import pytest

from vitascope.adapters.memory import HeldTime, MemoryObjectStore
from vitascope.adapters.memory.timing import HELD_START
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import ObjectRef
from vitascope.runtime.ports import ObjectStore, UnfinishedUpload


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
    upload = UnfinishedUpload("k", "1", HELD_START)
    for call in (
        store.get("k"),
        store.put("k", b"", "x/y"),
        store.size("k"),
        store.list(""),
        store.remove(["k"]),
        anext(store.scan("")),
        store.copy(ObjectRef(key="k", bytes=0, sha256="0" * 64), "k2"),
        store.list_uploads(),
        store.abort_upload(upload),
    ):
        with pytest.raises(VitascopeError) as caught:
            await call
        assert FailureCode.STORE_UNAVAILABLE is caught.value.code


async def test_objects_are_dated_by_the_clock_of_the_store() -> None:
    """A put, a put again and a copy bear the time of their making; what a test damages keeps its date."""
    time = HeldTime()
    store = MemoryObjectStore(clock=time)
    ref = await store.put("a", b"content", "text/plain")
    time.advance(60)
    await store.copy(ref, "b")
    store.objects["a"] = b"Content"
    store.objects["laid there"] = b"x"
    dates = {entry.key: (entry.modified - HELD_START).total_seconds() async for entry in store.scan("")}
    assert {"a": 0.0, "b": 60.0, "laid there": 0.0} == dates
    await store.put("a", b"new", "text/plain")
    assert [60.0] == [(entry.modified - HELD_START).total_seconds() async for entry in store.scan("a")]


async def test_full_store_takes_no_copy() -> None:
    """A copy takes room, too."""
    store = MemoryObjectStore()
    ref = await store.put("a", b"content", "text/plain")
    store.is_full = True
    with pytest.raises(VitascopeError) as caught:
        await store.copy(ref, "b")
    assert FailureCode.STORE_FULL is caught.value.code
