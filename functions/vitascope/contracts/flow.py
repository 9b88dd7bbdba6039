"""The stage table: what runs after what, in which state of the job, and what each stage leaves behind."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """Where a job is. The last six are terminal; only `expired` may follow them."""

    QUEUED = "queued"
    RUNNING = "running"
    DECODING = "decoding"
    ENCODING = "encoding"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REFUSED = "refused"
    WITHHELD = "withheld"
    EXPIRED = "expired"


TERMINAL = frozenset(
    {State.SUCCEEDED, State.FAILED, State.CANCELLED, State.REFUSED, State.WITHHELD, State.EXPIRED},
)

SUCCESSORS: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.RUNNING, State.FAILED, State.CANCELLED, State.REFUSED}),
    State.RUNNING: frozenset({State.QUEUED, State.DECODING, State.FAILED, State.CANCELLED}),
    State.DECODING: frozenset({State.ENCODING, State.FAILED, State.CANCELLED}),
    State.ENCODING: frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED, State.WITHHELD}),
    **{state: frozenset({State.EXPIRED}) for state in TERMINAL - {State.EXPIRED}},
    State.EXPIRED: frozenset(),
}
"""From each state, the states that may follow. A record may also change without leaving its state."""


class Stage(StrEnum):
    """A kind of process that does a part of the work."""

    DENOISE = "denoise"
    DECODE = "decode"
    ENCODE = "encode"


@dataclass(frozen=True)
class StageRow:
    """One row of the stage table.

    Attributes:
        stage: the stage.
        states: the states in which its event may be worked on; in any other the event is stale and is dropped.
        done: the state that its success leads to.
        next: the stage whose event follows, if any.
    """

    stage: Stage
    states: frozenset[State]
    done: State
    next: Stage | None


STAGES: dict[Stage, StageRow] = {
    row.stage: row
    for row in (
        StageRow(Stage.DENOISE, frozenset({State.RUNNING}), State.DECODING, Stage.DECODE),
        # Encode starts with the first decoded chunk, so it may run while the job is still decoding.
        StageRow(Stage.DECODE, frozenset({State.DECODING}), State.ENCODING, Stage.ENCODE),
        StageRow(Stage.ENCODE, frozenset({State.DECODING, State.ENCODING}), State.SUCCEEDED, None),
    )
}

STAGE_OF: dict[State, Stage] = {
    State.RUNNING: Stage.DENOISE,
    State.DECODING: Stage.DECODE,
    State.ENCODING: Stage.ENCODE,
}
"""The stage whose success the job waits for, in each state in which it waits for one."""
