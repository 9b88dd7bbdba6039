"""Ended jobs leave nothing behind but what they were for."""

import pytest

from records import record_in
from vitascope.adapters.memory import MemoryObjectStore
from vitascope.contracts import objects
from vitascope.contracts.flow import State
from vitascope.publish.sweep import Sweeper
from vitascope.runtime.ports import Stamped

ALL = ["checkpoints", "frames", "latents", "outputs", "records"]


@pytest.mark.parametrize(
    ("left", "state"),
    [
        pytest.param(["records"], State.CANCELLED, id="cancelled: everything goes"),
        pytest.param(["outputs", "records"], State.SUCCEEDED, id="succeeded: what was on the way goes"),
        pytest.param(ALL, State.FAILED, id="failed: may be tried again"),
        pytest.param(ALL, State.DECODING, id="alive"),
    ],
)
async def test_what_is_left_of_a_job(left: list[str], state: State) -> None:
    """By the state of its end; doing it twice is the same, and other jobs are not touched."""
    store, record, other = MemoryObjectStore(), record_in(state), record_in(State.RUNNING)
    for owner in (record, other):
        keys = [objects.checkpoint_key(owner, 1, 5), objects.latents_key(owner, 1), objects.chunk_key(owner, 1, 0)]
        for key in (*keys, objects.output_key(owner, 1), objects.record_key(owner)):
            await store.put(key, b"x", "application/octet-stream")
    for _ in range(2):
        await Sweeper(store).handle(Stamped(record, 1))
    found = await store.list("")
    assert left == sorted(key.split("/")[0] for key in found if record.id in key)
    assert ALL == sorted(key.split("/")[0] for key in found if other.id in key)
