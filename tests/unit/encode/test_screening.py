"""A finished clip before the output screen: what is shown, and what becomes of the job."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pictures import draw_shapes
from unit.denoise import chain as chains
from unit.denoise.chain import CHUNKS, Chain, files_in, settled
from unit.encode.chained import OUTPUTS, succeeded
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.objects import output_key
from vitascope.contracts.transitions import StaleAttempt
from vitascope.encode.screening import Screening, pick_frames
from vitascope.runtime.outcome import Verdict, judge
from vitascope.runtime.settings import ScreenSettings
from vitascope.runtime.stage import HandBack
from vitascope.screen import Finding, Still
from vitascope.screen.build import open_output_screen

FRAMES = sum(CHUNKS)
FRUIT = Finding("model", "fruit", "frame 3 scores 0.9")
AWAY = VitascopeError(FailureCode.SCREEN_UNAVAILABLE, "The hook answers 500.")


class Watching:
    """Gives its answers one after the other, the last one for ever, and notes the store at each time."""

    def __init__(self, chain: Chain, *answers: Finding | VitascopeError | None) -> None:
        self.chain, self.answers = chain, list(answers)
        self.stills: Sequence[Still] = ()
        self.stored: list[list[str]] = []

    async def check(self, stills: Sequence[Still]) -> Finding | None:
        self.stills = stills
        self.stored.append(self.chain.keys("outputs"))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, VitascopeError):
            raise answer
        return answer


@pytest.mark.parametrize(
    ("num_frames", "stills", "expected"),
    [
        pytest.param(9, 3, {0, 4, 8}, id="both-ends"),
        pytest.param(9, 1, {4}, id="the-middle"),
        pytest.param(9, 2, {0, 8}, id="two"),
        pytest.param(3, 16, {0, 1, 2}, id="more-than-there-are"),
        pytest.param(1, 16, {0}, id="a-single-frame"),
        pytest.param(81, 5, {0, 20, 40, 60, 80}, id="spread"),
    ],
)
def test_frames_are_spread(num_frames: int, stills: int, expected: set[int]) -> None:
    """The first and the last are among them."""
    assert expected == pick_frames(num_frames, stills)


async def test_clip_that_passes_is_published(chain: Chain) -> None:
    """The screen has seen its stills, in order, before anything was uploaded."""
    screen = Watching(chain, None)
    job = await chain.run_to(Stage.ENCODE)
    await chain.run(chain.encode(Screening(screen, 3)), job)
    await succeeded(chain, job)
    assert [0, FRAMES // 2, FRAMES - 1] == [still.frame for still in screen.stills]
    assert all(still.jpeg.startswith(b"\xff\xd8") for still in screen.stills)
    assert [[]] == screen.stored


async def test_finding_withholds_the_clip(chain: Chain, tmp_path: Path) -> None:
    """The job says why; neither a file nor what it was made of is left, and nobody is charged."""
    job = await chain.run_to(Stage.ENCODE)
    await chain.run(chain.encode(Screening(Watching(chain, FRUIT), 3)), job)
    record = await chain.record(job)
    assert State.WITHHELD is record.state
    assert record.run.failure is not None
    assert (FailureCode.OUTPUT_WITHHELD, "encode") == (record.run.failure.code, record.run.failure.stage)
    assert "fruit" in record.run.failure.message
    assert "0.9" not in record.run.failure.message
    assert record.result.actual_gpu_s >= 0
    assert 0.0 == record.result.billed_units
    assert [] == chain.keys()
    assert [] == files_in(tmp_path)


async def test_second_run_of_a_withheld_clip_changes_nothing(chain: Chain) -> None:
    """A copy of the event finds the end; what an earlier run uploaded before there was a screen goes, too."""
    job = await chain.run_to(Stage.ENCODE)
    work = await chain.work_for(job, Stage.ENCODE)
    await chain.run(chain.encode(Screening(Watching(chain, FRUIT), 3)), job)
    record = await chain.record(job)
    await chain.store.put(output_key(record, 1), b"early", "video/mp4")
    with pytest.raises(StaleAttempt):
        await chain.encode(Screening(Watching(chain, None), 3)).handle(work, chains.Pulse())
    assert record == await chain.record(job)
    assert [] == chain.keys()


async def test_lost_answer_of_the_end_is_found(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger took it, and said so to nobody."""
    job = await chain.run_to(Stage.ENCODE)
    lost = chain.lose_answer(monkeypatch, lambda record: record.state is State.WITHHELD)
    await chain.run(chain.encode(Screening(Watching(chain, FRUIT), 3)), job)
    assert 1 == len(lost)
    assert lost[0] == await chain.record(job)


async def test_screen_that_comes_back_is_asked_again(chain: Chain) -> None:
    """The clip waits in the scratch folder; nothing is made anew, and nothing is uploaded before."""
    screen = Watching(chain, AWAY, AWAY, None)
    job = await chain.run_to(Stage.ENCODE)
    await chain.run(chain.encode(Screening(screen, 3)), job)
    await succeeded(chain, job)
    assert [[], [], []] == screen.stored


async def test_screen_that_stays_away_is_an_outage(chain: Chain) -> None:
    """No file, and no try of the job is counted: the event comes again later."""
    job = await chain.run_to(Stage.ENCODE)
    before = await chain.record(job)
    with pytest.raises(VitascopeError) as failed:
        await chain.run(chain.encode(Screening(Watching(chain, AWAY), 3)), job)
    assert Verdict.WAIT is judge(failed.value, Stage.ENCODE).verdict
    assert before == await chain.record(job)
    assert [] == chain.keys("outputs")


class Slow:
    """Waits until it is let go."""

    def __init__(self) -> None:
        self.asked, self.gate = asyncio.Event(), asyncio.Event()

    async def check(self, stills: Sequence[Still]) -> Finding | None:
        assert stills
        self.asked.set()
        await self.gate.wait()
        raise AWAY


@pytest.mark.parametrize(
    ("stop", "error"), [pytest.param("cancel", StaleAttempt, id="cancel"), pytest.param("drain", HandBack, id="drain")]
)
async def test_waiting_for_the_screen_can_be_stopped(chain: Chain, stop: str, error: type[Exception]) -> None:
    """A cancelled job and a process that ends do not wait for a screen that is away."""
    screen, job = Slow(), await chain.run_to(Stage.ENCODE)
    handler = chain.encode(Screening(screen, 3))
    running = asyncio.create_task(chain.run(handler, job), name="encode")
    await screen.asked.wait()
    await (chain.cancel(job) if stop == "cancel" else handler.drain())
    await settled()
    screen.gate.set()
    with pytest.raises(error):
        await running
    assert [] == chain.keys("outputs")


async def test_without_a_screen_no_stills_are_made(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pictures would cost time for nothing."""
    made: list[Any] = []
    monkeypatch.setattr("vitascope.encode.clip.Still", lambda *parts: made.append(parts))
    job = await chain.run_to(Stage.ENCODE)
    await chain.run(chain.encode(), job)
    assert OUTPUTS == chain.keys()
    assert [] == made


async def test_model_withholds_what_it_is_sure_of(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real model, from the pixels of the chunks to the end of the job."""

    def make_frames(blob: bytes, first: int, count: int) -> NDArray[np.uint8]:
        assert blob
        assert first >= 0
        return np.stack([draw_shapes(64, 64)] * count)

    monkeypatch.setattr(chains, "make_frames", make_frames)
    job = await chain.run_to(Stage.ENCODE)
    async with open_output_screen(ScreenSettings(still_model=True)) as screen:
        assert screen is not None
        await chain.run(chain.encode(Screening(screen, 4)), job)
    assert State.WITHHELD is (await chain.record(job)).state
    assert [] == chain.keys()
