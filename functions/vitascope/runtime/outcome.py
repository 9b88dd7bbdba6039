"""What the end of a stage's run means: from the exception that a handler raised to what is done about it. Pure."""

from dataclasses import dataclass
from enum import StrEnum

from vitascope.contracts.failures import Failure, FailureCode, FailureKind, VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.transitions import StaleAttempt
from vitascope.runtime.stage import HandBack

MAX_FAILURES = 3
"""So often a stage of one job may fail before the job does: once for chance, once for a bad machine, no more."""
MAX_TAKES = 8
"""So often an event may be delivered. A run that ends its process each time leaves no failure behind to count, only
this number; outages and drains deliver again as well, so it is well above `MAX_FAILURES`."""
BACKOFF_S = (1.0, 5.0, 15.0, 30.0)
"""Pauses before a repetition; the last one stays. A server holds back a redelivery for at most 30 s."""
DETAIL_MAX_CHARS = 200
"""Of what happened, a record keeps so much: it has room for the sentence, not for a report."""
OUTAGES = frozenset(
    {
        FailureCode.BUS_UNAVAILABLE,
        FailureCode.STORE_UNAVAILABLE,
        FailureCode.STORE_FULL,
        FailureCode.SERVICE_UNAVAILABLE,
        FailureCode.SCREEN_UNAVAILABLE,
    },
)
"""A server is away or full: no fault of the work, so it waits and no try is counted."""

OUT_OF_MEMORY_NAMES = frozenset({"MemoryError", "OutOfMemoryError", "DeviceMemoryError"})
"""By name: torch's errors differ by device, and only the engine imports torch."""

_FAILED = {
    Stage.DENOISE: FailureCode.DENOISE_FAILED,
    Stage.DECODE: FailureCode.DECODE_FAILED,
    Stage.ENCODE: FailureCode.ENCODE_FAILED,
}
_OUT_OF_MEMORY = {
    Stage.DENOISE: FailureCode.DENOISE_OUT_OF_MEMORY,
    Stage.DECODE: FailureCode.DECODE_OUT_OF_MEMORY,
    Stage.ENCODE: FailureCode.ENCODE_FAILED,
}
_OUT_OF_MEMORY_CODES = frozenset({FailureCode.DENOISE_OUT_OF_MEMORY, FailureCode.DECODE_OUT_OF_MEMORY})


class Verdict(StrEnum):
    """What follows a run."""

    DONE = "done"
    """The work is done: acknowledge."""
    STALE = "stale"
    """The job has moved on: make sure that what follows is on its way, and forget the event."""
    HANDED_BACK = "handed_back"
    """The process stops: somebody else, at once."""
    WAIT = "wait"
    """A server is away: later, not counted."""
    RETRY = "retry"
    """It failed and may succeed next time: count, and later."""
    FAIL = "fail"
    """It would fail again: the job has failed."""


@dataclass(frozen=True)
class Outcome:
    """A verdict, and what is known of the run.

    Attributes:
        verdict: what follows.
        failure: what happened, for wait, retry and fail.
        is_out_of_memory: whether the process has to prove itself before it takes more work.
        worked_s: seconds that the run was at work.
    """

    verdict: Verdict
    failure: Failure | None = None
    is_out_of_memory: bool = False
    worked_s: float = 0.0


def judge(error: Exception | None, stage: Stage) -> Outcome:
    """The outcome of a run that raised `error`, or returned.

    An error without a code of ours becomes the stage's own code; of it only the class's name is public.
    """
    error = _unwrap(error)
    if error is None:
        return Outcome(Verdict.DONE)
    if isinstance(error, StaleAttempt) or (isinstance(error, VitascopeError) and error.code is FailureCode.CANCELLED):
        return Outcome(Verdict.STALE)
    if isinstance(error, HandBack):
        return Outcome(Verdict.HANDED_BACK)
    code = error.code if isinstance(error, VitascopeError) else _compute_code(error, stage)
    detail = error.detail if isinstance(error, VitascopeError) else f"({type(error).__name__})"
    failure = Failure.of(code, detail[:DETAIL_MAX_CHARS], stage=stage)
    if code in OUTAGES:
        return Outcome(Verdict.WAIT, failure)
    verdict = Verdict.RETRY if is_retryable(failure) else Verdict.FAIL
    return Outcome(verdict, failure, is_out_of_memory=is_out_of_memory(error))


def is_out_of_memory(error: Exception) -> bool:
    """Whether the device or the machine had too little memory, whichever library says so."""
    if isinstance(error, VitascopeError):
        return error.code in _OUT_OF_MEMORY_CODES
    return any(kind.__name__ in OUT_OF_MEMORY_NAMES for kind in type(error).__mro__)


def judge_exhausted(stage: Stage, takes: int) -> Outcome:
    """The outcome for work that was taken so often and never brought to an end."""
    return Outcome(
        Verdict.FAIL, Failure.of(_FAILED[stage], f"It was begun {takes - 1} times and not ended.", stage=stage)
    )


def is_retryable(failure: Failure) -> bool:
    """Whether the same work may succeed if it is tried again."""
    return VitascopeError(failure.code).kind is FailureKind.RETRYABLE


def compute_delay_s(tries: int) -> float:
    """The pause after so many tries, counted from 1."""
    return BACKOFF_S[min(max(tries, 1), len(BACKOFF_S)) - 1]


def _compute_code(error: Exception, stage: Stage) -> FailureCode:
    return (_OUT_OF_MEMORY if is_out_of_memory(error) else _FAILED)[stage]


def _unwrap(error: Exception | None) -> Exception | None:
    # A handler that uses task groups raises a group around its one error.
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
