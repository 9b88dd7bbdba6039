"""Ended jobs leave nothing behind but what they were for."""

import pytest

from unit.publish.kept import Kept
from vitascope.contracts.flow import State
from vitascope.publish.sweep import Sweeper

ALL = ["checkpoints", "frames", "inputs", "latents", "outputs", "records"]


@pytest.mark.parametrize(
    ("left", "state"),
    [
        pytest.param(["records"], State.CANCELLED, id="cancelled: everything goes"),
        pytest.param(["records"], State.EXPIRED, id="expired: everything goes"),
        pytest.param(["inputs", "outputs", "records"], State.SUCCEEDED, id="succeeded: what was on the way goes"),
        pytest.param(
            ["checkpoints", "inputs", "latents", "records"], State.FAILED, id="failed: what another try needs stays"
        ),
        pytest.param(ALL, State.DECODING, id="alive"),
    ],
)
async def test_what_is_left_of_a_job(kept: Kept, left: list[str], state: State) -> None:
    """By the state of its end; doing it twice is the same, and other jobs are not touched."""
    swept, other = await kept.add(state), await kept.add(State.RUNNING)
    for _ in range(2):
        await Sweeper(kept.store).handle(swept)
    assert left == kept.list_keys(swept.record.id)
    assert ALL == kept.list_keys(other.record.id)
