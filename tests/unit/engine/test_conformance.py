"""Every family passes the same checks: this is what an upgrade of diffusers has to pass."""

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from diffusers.modular_pipelines import PipelineState

from unit.engine.tiny_families import MAKERS
from unit.engine.tiny_job import Job
from vitascope.engine.loop import StepReport, Stop
from vitascope.engine.run import unpack_hand_over
from vitascope.engine.stages import join
from vitascope.engine.stream import DecodedAudio, stream_decoded, to_uint8

CARRIED = ("latents", "audio_latents", "sound_latents", "latent_chunks", "segment_frames", "output_chunks")
RESULTS = ("videos", "audio", "sound")
# Steps where the library gives a callback a chance: Helios and Animate 2 step inside a block, so their unit is a chunk.
STEPS = dict.fromkeys(MAKERS, 6) | {"minimax_h3": 5, "cosmos3_transfer": 18, "helios": 3, "wan_animate2": 3}
CHUNKS = {
    "hunyuan15": [9],
    "ltx2": [9, 8, 8, 8, 8, 8],
    "minimax_h3": [17] * 6 + [22],
    "cosmos3_transfer": [13],
    "helios": [32] * 3 + [1],
    "wan_animate2": [25],
}
SOUND = {"ltx2": (2, 24000), "minimax_h3": (2, 32000), "cosmos3_sound": (2, 16)}

pytestmark = pytest.mark.parametrize("family", MAKERS)


@cache
def finished(family: str) -> tuple[PipelineState, list[StepReport]]:
    """A run that nothing interrupts, shared by the checks of one family."""
    reports: list[StepReport] = []
    return Job(MAKERS[family]).denoise(reports.append), reports


def tensors(state: PipelineState, names: Iterable[str]) -> list[torch.Tensor]:
    values = [state.values[name] for name in names if state.values.get(name) is not None]
    return [tensor for value in values for tensor in (value if isinstance(value, list) else [value])]


def assert_equal(expected: PipelineState, found: PipelineState, names: Iterable[str]) -> None:
    left, right = tensors(expected, names), tensors(found, names)
    assert len(left) == len(right) > 0
    assert all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def pieces_of(job: Job, hand_over: bytes) -> list[Any]:
    stage = job.stages["decode"]
    state, _ = unpack_hand_over(hand_over)
    return list(stream_decoded(job.pipe(stage), stage, state, audio_rate=job.tiny.audio_rate))


def test_two_stages_equal_one_pipeline(family: str) -> None:
    """Denoise and decode in fresh objects, with bytes between them, give what one pipeline of the library gives."""
    job = Job(MAKERS[family])
    both = join(*job.stages.values())
    request = job.state().values
    known = {name: value for name, value in request.items() if name in both.input_names}
    tagged = {name: request[name] for name in job.tiny.tagged}
    expected = job.pipe(both)(**known, **({"denoiser_input_fields": tagged} if tagged else {}))

    assert_equal(expected, job.decode(job.hand_over(finished(family)[0])), RESULTS)


def test_steps_are_counted_and_known_ahead(family: str) -> None:
    """Every step is reported once, in order, with the total known from the first one on."""
    steps = STEPS[family]

    assert [(step, steps) for step in range(1, steps + 1)] == [(r.step, r.steps) for r in finished(family)[1]]


def test_stopped_and_resumed_equals_uninterrupted(family: str) -> None:
    """Left in the middle and gone on with in fresh objects, a run ends with the same bits."""
    middle = STEPS[family] // 2
    saved: list[bytes] = []

    def stop(report: StepReport) -> None:
        if report.step == middle:
            saved.append(report.snapshot())
            raise Stop

    with pytest.raises(Stop):
        Job(MAKERS[family]).denoise(stop)
    reports: list[StepReport] = []
    resumed = Job(MAKERS[family]).denoise(reports.append, resume=saved[0])

    assert_equal(finished(family)[0], resumed, CARRIED)
    assert list(range(middle + 1, STEPS[family] + 1)) == [report.step for report in reports]


def test_streamed_frames_equal_the_whole_decode(family: str) -> None:
    """Frames come in pieces of the family's size and are those of the library's decode, to the last bit of a byte."""
    job = Job(MAKERS[family])
    sent = job.hand_over(finished(family)[0])
    frames = [piece for piece in pieces_of(job, sent) if not isinstance(piece, DecodedAudio)]

    assert CHUNKS.get(family, [1, 4, 4]) == [len(piece) for piece in frames]
    assert np.array_equal(to_uint8(job.decode(sent).values["videos"]), np.concatenate(frames))


def test_sound_comes_before_frames(family: str) -> None:
    """A family with sound gives it first, whole, with its rate; the others give none."""
    job = Job(MAKERS[family])
    sent = job.hand_over(finished(family)[0])
    found = [(at, piece) for at, piece in enumerate(pieces_of(job, sent)) if isinstance(piece, DecodedAudio)]

    if family not in SOUND:
        assert [] == found
        return
    [(at, audio)] = found
    assert at == 0
    assert SOUND[family] == (audio.samples.shape[0], audio.sample_rate_hz)
    waveform = tensors(job.decode(sent), ("audio", "sound"))[0]
    assert np.array_equal(waveform.reshape(audio.samples.shape).numpy(), audio.samples)
