"""Numbers of a video's record."""

from fractions import Fraction

import pytest

from records import NOW, record_in
from vitascope.contracts.events import Progress
from vitascope.contracts.flow import Stage, State
from vitascope.ingress.videos.present import compute_poll_ms, compute_progress, compute_status, format_seconds


@pytest.mark.parametrize(
    ("num_frames", "fps", "expected"),
    [
        pytest.param(81, Fraction(16), "5", id="gaps"),
        pytest.param(80, Fraction(16), "5", id="frames"),
        pytest.param(17, Fraction(8), "2", id="short"),
        pytest.param(1, Fraction(8), "0.125", id="one frame"),
        pytest.param(10, Fraction(8), "1.25", id="neither"),
        pytest.param(121, Fraction(24000, 1001), "5.047", id="NTSC"),
    ],
)
def test_seconds_count_as_users_do(num_frames: int, fps: Fraction, expected: str) -> None:
    """Whole where the frames or their gaps are."""
    assert expected == format_seconds(num_frames, fps)


@pytest.mark.parametrize(
    ("state", "status", "low", "high"),
    [
        pytest.param(State.QUEUED, "queued", 0, 0, id="queued"),
        pytest.param(State.RUNNING, "in_progress", 0, 90, id="running"),
        pytest.param(State.DECODING, "in_progress", 90, 95, id="decoding"),
        pytest.param(State.ENCODING, "in_progress", 95, 99, id="encoding"),
        pytest.param(State.SUCCEEDED, "completed", 100, 100, id="succeeded"),
        pytest.param(State.FAILED, "failed", 0, 0, id="failed"),
        pytest.param(State.CANCELLED, "failed", 0, 0, id="cancelled"),
    ],
)
def test_each_state_is_one_of_four(state: State, status: str, low: int, high: int) -> None:
    """And a share of the whole."""
    record = record_in(state)
    whole = Progress(job=record.id, attempt=1, stage=Stage.DENOISE, step=20, steps=20, time=NOW)
    assert status == compute_status(record)
    assert low == compute_progress(record, None)
    if status == "in_progress":
        assert high == compute_progress(record, whole)


@pytest.mark.parametrize(
    ("state", "remaining_s", "position", "expected"),
    [
        pytest.param(State.QUEUED, None, 1, 1000, id="next"),
        pytest.param(State.QUEUED, None, 3, 3000, id="third"),
        pytest.param(State.QUEUED, None, 99, 5000, id="far behind"),
        pytest.param(State.RUNNING, 8.0, 1, 2000, id="a quarter of what is left"),
        pytest.param(State.RUNNING, 0.1, 1, 500, id="nearly there"),
        pytest.param(State.RUNNING, 900.0, 1, 5000, id="long"),
        pytest.param(State.ENCODING, None, 1, 500, id="the last stage"),
    ],
)
def test_clients_ask_sooner_the_less_is_left(
    state: State, remaining_s: float | None, position: int, expected: int
) -> None:
    """Within bounds."""
    record = record_in(state)
    progress = None
    if remaining_s is not None:
        progress = Progress(
            job=record.id, attempt=1, stage=Stage.DENOISE, step=1, steps=20, remaining_s=remaining_s, time=NOW
        )
    assert expected == compute_poll_ms(record, progress, position)
