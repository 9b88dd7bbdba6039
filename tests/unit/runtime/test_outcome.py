"""From what a handler raised to what is done about it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vitascope.contracts.failures import FAILURES, Failure, FailureCode, FailureKind, VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.transitions import IllegalTransition, StaleAttempt
from vitascope.runtime.outcome import BACKOFF_S, DETAIL_MAX_CHARS, OUTAGES, Verdict, compute_delay_s, judge
from vitascope.runtime.stage import HandBack

TorchOutOfMemory = type("OutOfMemoryError", (RuntimeError,), {})


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (None, Verdict.DONE),
        (StaleAttempt(), Verdict.STALE),
        (VitascopeError(FailureCode.CANCELLED), Verdict.STALE),
        (HandBack(), Verdict.HANDED_BACK),
        (ExceptionGroup("tasks", [HandBack()]), Verdict.HANDED_BACK),
        (ExceptionGroup("tasks", [HandBack(), RuntimeError()]), Verdict.RETRY),
        (IllegalTransition(), Verdict.RETRY),
        (KeyError("x"), Verdict.RETRY),
    ],
    ids=["returned", "stale", "cancelled", "handed back", "grouped", "two errors", "illegal", "unexpected"],
)
def test_verdict_of_an_end(error: Exception | None, verdict: Verdict) -> None:
    """Each way in which a handler may end has one meaning."""
    assert judge(error, Stage.DECODE).verdict is verdict


@pytest.mark.parametrize("code", [code for code in FailureCode if code is not FailureCode.CANCELLED])
def test_verdict_of_each_code(code: FailureCode) -> None:
    """Outages wait, retryable codes are tried again, all others end the job; the code is kept."""
    outcome = judge(VitascopeError(code, "Why."), Stage.ENCODE)
    is_retryable = FAILURES[code].kind is FailureKind.RETRYABLE
    expected = Verdict.WAIT if code in OUTAGES else Verdict.RETRY if is_retryable else Verdict.FAIL
    assert (expected, Failure.of(code, "Why.", stage="encode")) == (outcome.verdict, outcome.failure)


@pytest.mark.parametrize("error", [MemoryError(), TorchOutOfMemory()], ids=["python", "torch"])
@pytest.mark.parametrize(
    ("stage", "code", "verdict"),
    [
        (Stage.DENOISE, FailureCode.DENOISE_OUT_OF_MEMORY, Verdict.FAIL),
        (Stage.DECODE, FailureCode.DECODE_OUT_OF_MEMORY, Verdict.RETRY),
        (Stage.ENCODE, FailureCode.ENCODE_FAILED, Verdict.RETRY),
    ],
)
def test_out_of_memory_has_a_code(error: Exception, stage: Stage, code: FailureCode, verdict: Verdict) -> None:
    """Known by its class's name, since torch is not imported for it."""
    outcome = judge(error, stage)
    assert outcome.failure is not None
    assert (outcome.verdict, outcome.failure.code) == (verdict, code)
    assert outcome.is_out_of_memory


@pytest.mark.parametrize(
    ("error", "is_so"),
    [
        (VitascopeError(FailureCode.DECODE_OUT_OF_MEMORY), True),
        (VitascopeError(FailureCode.DECODE_FAILED), False),
        (RuntimeError("out of memory"), False),
        (type("DeviceMemoryError", (Exception,), {})(), True),
    ],
    ids=["ours", "other code", "words", "engine's"],
)
def test_what_calls_for_a_self_test(error: Exception, *, is_so: bool) -> None:
    """Only memory that ran out does."""
    assert is_so == judge(error, Stage.DECODE).is_out_of_memory


def test_long_detail_is_cut() -> None:
    """A record has room for a sentence."""
    failure = judge(VitascopeError(FailureCode.DECODE_FAILED, "#" * 5000), Stage.DECODE).failure
    assert failure is not None
    assert failure.message.count("#") == DETAIL_MAX_CHARS


@given(st.integers(-1, 10_000))
def test_delay_rises_and_stays_bounded(tries: int) -> None:
    """At least the first pause, never above the last, never shorter than for fewer tries."""
    assert BACKOFF_S[0] <= compute_delay_s(tries) <= compute_delay_s(tries + 1) <= BACKOFF_S[-1] <= 30
