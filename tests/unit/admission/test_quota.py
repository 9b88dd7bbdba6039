"""Quotas: what fits, what does not, and when it is worth another try."""

from datetime import timedelta

import pytest

from records import NOW
from vitascope.admission.quota import JOB_RETRY_S, find_excess
from vitascope.contracts.tenants import Quotas
from vitascope.runtime.usage import DAY, Usage

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("quotas", "usage"),
    [
        pytest.param(Quotas(), Usage(10**6, 10**6, 1e9, 1e9), id="none"),
        pytest.param(Quotas(live_jobs=2), Usage(live=1), id="live"),
        pytest.param(Quotas(queued_jobs=2), Usage(live=9, queued=1), id="queued"),
        pytest.param(Quotas(gpu_s_per_day=10), Usage(live_gpu_s=4, spent_gpu_s=4), id="gpu-exactly"),
    ],
)
def test_what_fits_is_taken(quotas: Quotas, usage: Usage) -> None:
    """Up to the quota, itself included."""
    assert find_excess(quotas, usage, 2.0, (), now=NOW) is None


@pytest.mark.parametrize(
    ("quotas", "usage", "words"),
    [
        pytest.param(Quotas(live_jobs=2), Usage(live=2), "2 of 2 jobs are under way", id="live"),
        pytest.param(Quotas(live_jobs=0), Usage(), "0 of 0", id="nothing-at-all"),
        pytest.param(Quotas(queued_jobs=1), Usage(queued=1), "1 of 1 jobs wait", id="queued"),
    ],
)
def test_too_many_jobs_are_refused(quotas: Quotas, usage: Usage, words: str) -> None:
    """The reason has the figures."""
    excess = find_excess(quotas, usage, 2.0, (), now=NOW)
    assert excess is not None
    assert words in excess.reason
    assert JOB_RETRY_S == excess.retry_after_s


def test_a_job_that_begins_at_decode_waits_in_no_queue() -> None:
    """The number of queued jobs does not keep it out."""
    assert find_excess(Quotas(queued_jobs=0), Usage(), 2.0, (), now=NOW, is_queued=False) is None


@pytest.mark.parametrize(
    ("wait", "usage", "ended"),
    [
        pytest.param(
            DAY - 3 * HOUR,
            Usage(spent_gpu_s=10),
            [(NOW - 5 * HOUR, 1.5), (NOW - 3 * HOUR, 0.5), (NOW - HOUR, 8.0)],
            id="the-second-one-makes-room",
        ),
        pytest.param(DAY - HOUR, Usage(spent_gpu_s=9, live_gpu_s=1), [(NOW - HOUR, 9.0)], id="all-at-once"),
        pytest.param(DAY, Usage(live_gpu_s=9, spent_gpu_s=1), [(NOW - HOUR, 1.0)], id="live-jobs-hold-it"),
        pytest.param(timedelta(seconds=1), Usage(spent_gpu_s=10), [(NOW - DAY, 5.0)], id="in-a-moment"),
    ],
)
def test_retry_after_is_when_enough_is_a_day_ago(
    wait: timedelta, usage: Usage, ended: list[tuple[object, float]]
) -> None:
    """Not the end of the day, and not longer than a day."""
    excess = find_excess(Quotas(gpu_s_per_day=10), usage, 2.0, ended, now=NOW)  # type: ignore[arg-type]  # times
    assert excess is not None
    assert wait.total_seconds() == excess.retry_after_s


def test_a_job_larger_than_the_quota_says_so() -> None:
    """There is no point in waiting, but the figures tell."""
    excess = find_excess(Quotas(gpu_s_per_day=10), Usage(), 12.5, (), now=NOW)
    assert excess is not None
    assert "Of 10 GPU-seconds in 24 hours 0 are used" in excess.reason
    assert "this one needs 12.5" in excess.reason
