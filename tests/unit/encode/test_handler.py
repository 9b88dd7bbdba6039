"""The encode handler at work: following, cancel, drain, publication."""

import asyncio
import hashlib
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unit.denoise.chain import CHUNKS, Chain, Tone, compute_grey, compute_latents, files_in, progress_of, settled, until
from unit.encode.chained import greys_of, hook_store, succeeded
from vitascope.contracts.deadlines import compute_limits
from vitascope.contracts.events import FramesReady, Progress
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.objects import chunk_key, output_key
from vitascope.contracts.subjects import progress_subject
from vitascope.contracts.transitions import StaleAttempt
from vitascope.encode import follower
from vitascope.encode import handler as encode_handler
from vitascope.encode.clip import Clip, FinishedClip
from vitascope.runtime.stage import HandBack, Pulse

FRAMES = sum(CHUNKS)


async def test_chain_gives_the_frames_that_the_latents_mean(chain: Chain, tmp_path: Path) -> None:
    """From noise to a file: each frame has its grey, and the record tells what the file is."""
    job = await chain.run_to(Stage.ENCODE)
    await chain.run(chain.encode(), job)
    record = await succeeded(chain, job)
    video = chain.store.objects[output_key(record, 1)]
    expected = [compute_grey(compute_latents(7), frame) for frame in range(FRAMES)]
    assert greys_of(video, tmp_path / "check.mp4") == pytest.approx(expected, abs=3)
    result = record.result
    assert result.output is not None
    assert (result.output.bytes, result.output.sha256) == (len(video), hashlib.sha256(video).hexdigest())
    assert (result.num_frames, result.fps, result.duration_s) == (FRAMES, Fraction(8), FRAMES / 8)
    assert not result.has_audio
    assert set(result.stage_s) == {"denoise", "decode", "encode"}
    assert result.thumbnail is not None
    assert chain.store.objects[result.thumbnail.key][:2] == b"\xff\xd8"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What clips have got done so far: an entry for each chunk, and one for the complete file."""
    done: list[str] = []
    add, finish = Clip.add, Clip.finish

    def note_add(clip: Clip, chunk: bytes) -> None:
        add(clip, chunk)
        done.append("chunk")

    def note_finish(clip: Clip) -> FinishedClip:
        finished = finish(clip)
        done.append("file")
        return finished

    monkeypatch.setattr(Clip, "add", note_add)
    monkeypatch.setattr(Clip, "finish", note_finish)
    return done


async def decode_and_encode(chain: Chain, job: str, until_chunk: Callable[[], bool]) -> None:
    """Encode starts before the second chunk is decoded; the third waits until something is so."""
    encoding: list[asyncio.Task[None]] = []

    async def start_encoding() -> None:
        await settled()
        encoding.append(asyncio.create_task(chain.run(chain.encode(), job), name="encode"))

    async def wait() -> None:
        await until(until_chunk)

    chain.decoder.points.acts |= {1: start_encoding, 2: wait}
    await chain.run(chain.decode(), job)
    await encoding[0]


async def test_encode_follows_a_running_decode(chain: Chain, written: list[str]) -> None:
    """Started with the first chunk, it encodes while later ones are made, and ends with the record's change."""
    job = await chain.run_to(Stage.DECODE)
    await decode_and_encode(chain, job, until_chunk=lambda: bool(written))
    await succeeded(chain, job)


async def test_lost_announcements_only_cost_time(
    chain: Chain,
    written: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With every announcement lost, the store tells, while decode still runs."""
    monkeypatch.setattr(follower, "RECHECK_S", 0.0)
    publish = chain.bus.publish_progress

    async def lose(subject: str, progress: Progress | FramesReady) -> None:
        if isinstance(progress, Progress):
            await publish(subject, progress)

    monkeypatch.setattr(chain.bus, "publish_progress", lose)
    job = await chain.run_to(Stage.DECODE)
    await decode_and_encode(chain, job, until_chunk=lambda: bool(written))
    await succeeded(chain, job)


async def test_progress_of_encode_comes_after_decode(chain: Chain, written: list[str]) -> None:
    """People see frames of encode only once decode is over, and never backwards."""
    job = await chain.run_to(Stage.DECODE)
    async with progress_of(chain, progress_subject("default", job)) as messages:
        await decode_and_encode(chain, job, until_chunk=lambda: len(written) > 1)
    shown = [Progress.model_validate_json(message) for message in messages]
    order = [(["denoise", "decode", "encode"].index(progress.stage), progress.step) for progress in shown]
    assert order == sorted(set(order))


async def test_nothing_is_published_before_decode_has_finished(
    chain: Chain,
    written: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The file is complete, the record still says decoding: the output waits."""
    job = await chain.run_to(Stage.DECODE)
    states: list[State] = []

    async def look() -> None:
        states.append((await chain.record(job)).state)

    hook_store(chain, "put_file", output_key(await chain.record(job), 1), look)
    replace, opened = chain.ledger.replace, asyncio.Event()

    async def hold(*args: Any) -> object:
        await opened.wait()
        return await replace(*args)

    monkeypatch.setattr(chain.ledger, "replace", hold)
    decoding = asyncio.create_task(chain.run(chain.decode(), job), name="decode")
    encoding = asyncio.create_task(chain.run(chain.encode(), job), name="encode")
    await until(lambda: "file" in written)
    await settled()
    opened.set()
    await decoding
    await encoding
    assert states == [State.ENCODING]
    await succeeded(chain, job)


async def test_next_chunk_is_fetched_while_one_is_encoded(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The codec has the first chunk in hand until the second one has been asked for."""
    job = await chain.run_to(Stage.ENCODE)
    asked, in_time, add = threading.Event(), list[bool](), Clip.add

    async def ask() -> None:
        asked.set()

    def add_after_the_next(clip: Clip, chunk: bytes) -> None:
        in_time.append(asked.wait(timeout=10))
        add(clip, chunk)

    hook_store(chain, "get", chunk_key(await chain.record(job), 1, 1), ask)
    monkeypatch.setattr(Clip, "add", add_after_the_next)
    await chain.run(chain.encode(), job)
    assert in_time == [True] * len(CHUNKS)


async def test_patience_ends(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clip whose chunks do not come gives its place to another."""
    monkeypatch.setattr(follower, "RECHECK_S", 0.0)
    monkeypatch.setattr(follower, "PATIENCE_S", 0.0)
    job = await chain.run_to(Stage.DECODE)
    with pytest.raises(HandBack):
        await chain.run(chain.encode(), job)
    assert (await chain.record(job)).state is State.DECODING


async def test_waiting_for_decode_is_no_silence(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first chunk, between chunks and until the record moves it waits; while it encodes it does not."""
    job = await chain.run_to(Stage.DECODE)
    pulse, add, encoding = Pulse(), Clip.add, list[bool]()
    work = await chain.work_for(job, Stage.ENCODE)

    def add_seen(clip: Clip, chunk: bytes) -> None:
        encoding.append(pulse.is_waiting)
        add(clip, chunk)

    monkeypatch.setattr(Clip, "add", add_seen)
    running = asyncio.create_task(chain.encode().handle(work, pulse), name="encode")
    chain.decoder.points.acts |= {
        0: lambda: until(lambda: pulse.is_waiting),
        2: lambda: until(lambda: len(encoding) == 2 and pulse.is_waiting),
    }
    await chain.run(chain.decode(), job)
    await running
    assert [False] * len(CHUNKS) == encoding
    assert compute_limits(await chain.record(job), Stage.ENCODE) == pulse.limits
    assert pulse.touches > len(CHUNKS)
    assert not pulse.is_waiting


async def test_patience_with_a_decode_that_does_not_end(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """All chunks are encoded and the record does not move: the place goes to another clip."""
    monkeypatch.setattr(encode_handler, "PATIENCE_S", 0.0)
    job = await chain.run_to(Stage.DECODE)
    replace, opened = chain.ledger.replace, asyncio.Event()

    async def hold(*args: Any) -> object:
        await opened.wait()
        return await replace(*args)

    monkeypatch.setattr(chain.ledger, "replace", hold)
    decoding = asyncio.create_task(chain.run(chain.decode(), job), name="decode")
    with pytest.raises(HandBack):
        await chain.run(chain.encode(), job)
    opened.set()
    await decoding
    await chain.run(chain.encode(), job)
    await succeeded(chain, job)


@pytest.mark.parametrize("chunk", range(len(CHUNKS)))
async def test_cancel_between_chunks_leaves_nothing(chain: Chain, chunk: int, tmp_path: Path) -> None:
    """No object and no scratch file of a cancelled job is left, at whatever chunk the cancel comes."""
    job = await chain.run_to(Stage.ENCODE)
    key = chunk_key(await chain.record(job), 1, chunk)
    hook_store(chain, "get", key, lambda: chain.cancel(job))
    with pytest.raises(StaleAttempt):
        await chain.run(chain.encode(), job)
    assert chain.keys() == []
    assert files_in(tmp_path) == []


async def test_cancel_during_the_upload_wins(chain: Chain) -> None:
    """The output goes again: a cancelled job has no file."""
    job = await chain.run_to(Stage.ENCODE)
    hook_store(chain, "put_file", output_key(await chain.record(job), 1), lambda: chain.cancel(job))
    with pytest.raises(StaleAttempt):
        await chain.run(chain.encode(), job)
    assert (await chain.record(job)).state is State.CANCELLED
    assert chain.keys() == []


async def test_drain_at_the_last_chunk_finishes(chain: Chain) -> None:
    """All pixels are there: the file is published rather than encoded once more."""
    job = await chain.run_to(Stage.ENCODE)
    handler = chain.encode()
    hook_store(chain, "get", chunk_key(await chain.record(job), 1, len(CHUNKS) - 1), handler.drain)
    await chain.run(handler, job)
    await succeeded(chain, job)


@pytest.mark.parametrize("chunk", range(len(CHUNKS) - 1))
async def test_drained_clip_is_encoded_elsewhere(chain: Chain, chunk: int, tmp_path: Path) -> None:
    """The event goes back, and the next process makes the file."""
    job = await chain.run_to(Stage.ENCODE)
    first = chain.encode()
    hook_store(chain, "get", chunk_key(await chain.record(job), 1, chunk), first.drain)
    with pytest.raises(HandBack):
        await chain.run(first, job)
    assert files_in(tmp_path) == []
    await chain.run(chain.encode(), job)
    await succeeded(chain, job)


async def test_second_run_of_finished_work_changes_nothing(chain: Chain) -> None:
    """A redelivery after success makes no second file; leftovers that a crash kept are removed."""
    job = await chain.run_to(Stage.ENCODE)
    work = await chain.work_for(job, Stage.ENCODE)
    await chain.run(chain.encode(), job)
    before, record = chain.objects(), await succeeded(chain, job)
    await chain.store.put(chunk_key(record, 1, 0), b"left by a crash", "x")
    await chain.encode().handle(work, pulse=Pulse())
    assert chain.objects() == before
    assert await chain.record(job) == record


async def test_two_runs_at_once_publish_one_file(chain: Chain) -> None:
    """A copy of an event: one run succeeds, the other finds that it is over, the file stays."""
    job = await chain.run_to(Stage.ENCODE)
    runs = [asyncio.create_task(chain.run(chain.encode(), job), name=f"run {number}") for number in range(2)]
    ends = await asyncio.gather(*runs, return_exceptions=True)
    assert all(end is None or isinstance(end, StaleAttempt | VitascopeError) for end in ends)
    record = await succeeded(chain, job)
    assert record.result.output is not None
    assert await chain.store.get(record.result.output)


async def test_stale_attempt_overwrites_no_output(chain: Chain) -> None:
    """A late event of attempt 1 changes nothing of attempt 2's result."""
    work = await chain.start()
    await chain.lose_group(work.job)
    for handler in (chain.denoise(), chain.decode(), chain.encode()):
        await chain.run(handler, work.job)
    before, record = chain.objects(), await succeeded(chain, work.job, attempt=2)
    with pytest.raises(StaleAttempt):
        await chain.encode().handle(work.model_copy(update={"stage": Stage.ENCODE}), pulse=Pulse())
    assert chain.objects() == before
    assert await chain.record(work.job) == record


async def test_sound_is_in_the_file(chain: Chain) -> None:
    """Decoded sound becomes a track, and the record says so."""
    seconds = np.arange(16000 * 2, dtype=np.float32) / 16000
    tone = (0.3 * np.sin(2 * np.pi * 440 * seconds)).astype(np.float32)
    chain.decoder.sound = Tone(np.stack([tone, tone]), 16000)
    job = await chain.run_to(Stage.ENCODE)
    await chain.run(chain.encode(), job)
    record = await succeeded(chain, job)
    assert record.result.has_audio
    assert b"mp4a" in chain.store.objects[output_key(record, 1)]


async def test_request_options_go_before_settings(chain: Chain) -> None:
    """A request for less quality gives a smaller file."""
    sizes = []
    for options in ({"crf": "1"}, {"crf": "50", "preset": "veryfast"}):
        job = await chain.run_to(Stage.ENCODE, video_codec_options=options)
        await chain.run(chain.encode(), job)
        output = (await chain.record(job)).result.output
        assert output is not None
        sizes.append(output.bytes)
    assert sizes[1] < sizes[0]
