"""Decode on servers in memory: chunks appear one by one, each once; memory that runs out costs no job."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from records import NOW
from unit.denoise.chain import CHUNKS, Chain, Tone, compute_latents, make_frames, progress_of, settled
from vitascope.contracts.chunks import unpack_audio, unpack_chunk
from vitascope.contracts.deadlines import compute_limits
from vitascope.contracts.events import FramesReady, Progress
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.objects import audio_key, chunk_key
from vitascope.contracts.subjects import frames_subject, progress_subject
from vitascope.contracts.transitions import StaleAttempt, finish_decode
from vitascope.runtime import persist
from vitascope.runtime.advance import advance
from vitascope.runtime.stage import HandBack, Pulse

FRAME_KEYS = [f"frames/1/{index:06d}.rgb" for index in range(len(CHUNKS))]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1, thread_name_prefix="engine") as executor:
        yield executor


@pytest.fixture
async def chain(pool: ThreadPoolExecutor, tmp_path: Path) -> Chain:
    return Chain(pool, tmp_path)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persist, "DELAYS_S", (0.0, 0.0, 0.0))


async def test_chunks_are_stored_and_recorded(chain: Chain) -> None:
    """A finished job is encoding, and its chunks hold the frames in order."""
    job = await chain.run_to(Stage.DECODE)
    await chain.run(chain.decode(), job)
    record = await chain.record(job)
    assert (record.state, record.run.chunks) == (State.ENCODING, len(CHUNKS))
    assert chain.keys("frames") == FRAME_KEYS
    first = 0
    for index, frames in enumerate(CHUNKS):
        pixels, first_frame = unpack_chunk(chain.store.objects[chunk_key(record, 1, index)])
        assert first_frame == first
        assert np.array_equal(make_frames(compute_latents(7), first, frames), pixels)
        first += frames
    assert await chain.has_work(job, Stage.ENCODE)
    assert "decode" in record.result.stage_s


async def test_encode_is_asked_for_after_the_first_chunk(chain: Chain) -> None:
    """Encode can begin while the second chunk is still being decoded."""
    job = await chain.run_to(Stage.DECODE)
    seen: list[tuple[bool, State]] = []

    async def look() -> None:
        await settled()
        seen.append((await chain.has_work(job, Stage.ENCODE), (await chain.record(job)).state))

    chain.decoder.points.acts |= {0: look, 1: look, 2: look}
    await chain.run(chain.decode(), job)
    assert seen[0] == (False, State.DECODING)
    assert seen[2] == (True, State.DECODING)


async def test_announcements_count_up(chain: Chain) -> None:
    """Each announcement is true when it is made, and the last one says that it is the last."""
    job = await chain.run_to(Stage.DECODE)
    async with progress_of(chain, frames_subject("default", job, 1)) as messages:
        chain.decoder.points.acts |= dict.fromkeys(range(len(CHUNKS)), settled)
        await chain.run(chain.decode(), job)
    shown = [FramesReady.model_validate_json(message) for message in messages]
    counts = [ready.chunks for ready in shown]
    assert counts == sorted(counts)
    assert (shown[-1].chunks, shown[-1].frames, shown[-1].done) == (len(CHUNKS), sum(CHUNKS), True)
    assert not shown[-1].has_audio


async def test_sound_is_stored_before_the_frames(chain: Chain) -> None:
    """Whoever sees the first chunk finds the sound, too."""
    chain.decoder.sound = Tone(np.zeros((2, 100), np.float32), 16000)
    job = await chain.run_to(Stage.DECODE)
    seen: list[list[str]] = []

    async def look() -> None:
        await settled()
        seen.append(chain.keys("frames"))

    chain.decoder.points.acts[1] = look
    async with progress_of(chain, frames_subject("default", job, 1)) as messages:
        await chain.run(chain.decode(), job)
    assert seen[0][-1] == "frames/1/audio.f32"
    assert FramesReady.model_validate_json(messages[-1]).has_audio
    samples, rate = unpack_audio(chain.store.objects[audio_key(await chain.record(job), 1)])
    assert (rate, samples.shape) == (16000, (2, 100))


@pytest.mark.parametrize("chunk", range(len(CHUNKS)))
async def test_cancel_stops_at_the_next_chunk(chain: Chain, chunk: int) -> None:
    """Nothing of the job is left in the store, and it is not handed on."""
    job = await chain.run_to(Stage.DECODE)
    chain.decoder.points.acts[chunk] = lambda: chain.cancel(job)
    with pytest.raises(StaleAttempt):
        await chain.run(chain.decode(), job)
    assert chain.keys() == []
    assert (await chain.record(job)).state is State.CANCELLED


@pytest.mark.parametrize("chunk", range(len(CHUNKS)))
async def test_drained_clip_is_decoded_elsewhere(chain: Chain, chunk: int) -> None:
    """The event goes back, the next process makes the same chunks, denoise is not repeated."""
    job = await chain.run_to(Stage.DECODE)
    first = chain.decode()
    chain.decoder.points.acts[chunk] = first.drain
    with pytest.raises(HandBack):
        await chain.run(first, job)
    chain.decoder.points.acts.clear()
    await chain.run(chain.decode(), job)
    assert chain.keys("frames") == FRAME_KEYS
    assert (await chain.record(job)).state is State.ENCODING


async def test_repetition_stores_the_same_bytes(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash before the record has moved: the second run leaves the store as the first did."""
    job = await chain.run_to(Stage.DECODE)
    replace = chain.ledger.replace

    async def crash(*_args: Any) -> object:
        raise RuntimeError("killed here")

    with monkeypatch.context() as patched:
        patched.setattr(chain.ledger, "replace", crash)
        with pytest.raises(RuntimeError, match="killed here"):
            await chain.run(chain.decode(), job)
    assert chain.ledger.replace == replace
    before = chain.objects()
    await chain.run(chain.decode(), job)
    assert chain.objects() == before


async def test_event_of_finished_work_asks_for_encode(chain: Chain) -> None:
    """A redelivery after the record has moved decodes nothing."""
    job = await chain.run_to(Stage.DECODE)
    await chain.run(chain.decode(), job)
    chain.decoder.tiles.clear()
    await chain.run(chain.decode(), job)
    assert chain.decoder.tiles == []
    assert await chain.has_work(job, Stage.ENCODE)


async def test_stale_attempt_leaves_the_newer_ones_frames(chain: Chain) -> None:
    """An event of attempt 1 that comes while attempt 2 is at work touches nothing of it."""
    work = await chain.start()
    await chain.lose_group(work.job)
    await chain.run(chain.denoise(), work.job)
    await chain.run(chain.decode(), work.job)
    before = chain.objects()
    old = work.model_copy(update={"stage": Stage.DECODE})
    with pytest.raises(StaleAttempt):
        await chain.decode().handle(old, pulse=Pulse())
    assert chain.objects() == before


async def test_run_that_a_copy_of_it_overtook_keeps_the_frames(chain: Chain) -> None:
    """The same attempt, delivered twice: the slower run stops, and what encode needs stays."""
    job = await chain.run_to(Stage.DECODE)
    record = await chain.record(job)
    finish = partial(finish_decode, attempt=1, chunks=len(CHUNKS), stage_s=1.0, now=NOW)
    chain.decoder.points.acts[2] = lambda: advance(chain.ledger, record.id, finish)
    with pytest.raises(StaleAttempt):
        await chain.run(chain.decode(), job)
    assert chain.keys("frames") == FRAME_KEYS[:2]
    assert (await chain.record(job)).state is State.ENCODING


async def test_smaller_tiles_after_memory_ran_out(chain: Chain) -> None:
    """The clip is decoded again from its latents, in tiles that fit."""
    chain.decoder.fits_px = 64
    job = await chain.run_to(Stage.DECODE, width=256, height=128)
    await chain.run(chain.decode(), job)
    assert chain.decoder.tiles == [None, 128, 64]
    assert (await chain.record(job)).state is State.ENCODING


async def test_memory_that_runs_out_late_changes_no_announced_chunk(chain: Chain) -> None:
    """What encode may have read already stays; the rest follows from the smaller tiles."""
    chain.decoder.fits_px, chain.decoder.runs_out_at = 64, 2
    job = await chain.run_to(Stage.DECODE, width=256, height=128)
    async with progress_of(chain, frames_subject("default", job, 1)) as messages:
        await chain.run(chain.decode(), job)
    counts = [FramesReady.model_validate_json(message).chunks for message in messages]
    assert counts == sorted(counts)
    assert (await chain.record(job)).run.chunks == len(CHUNKS)


async def test_memory_that_never_suffices_has_its_own_code(chain: Chain) -> None:
    """The latents are kept for another try."""
    chain.decoder.fits_px = 1
    job = await chain.run_to(Stage.DECODE)
    with pytest.raises(VitascopeError) as caught:
        await chain.run(chain.decode(), job)
    assert caught.value.code is FailureCode.DECODE_OUT_OF_MEMORY
    assert chain.keys() == ["latents/1/latents.safetensors"]


async def test_wrong_number_of_frames_is_a_failure(chain: Chain) -> None:
    """A clip that is shorter than promised is not handed on."""
    job = await chain.run_to(Stage.DECODE)
    chain.decoder.chunks = (1, 4)
    with pytest.raises(VitascopeError, match="5 frames instead of 9") as caught:
        await chain.run(chain.decode(), job)
    assert caught.value.code is FailureCode.DECODE_FAILED


async def test_store_that_is_away_for_a_moment_is_waited_for(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """An outage while a chunk is uploaded repeats the upload, not the decode."""
    job = await chain.run_to(Stage.DECODE)
    put, outages = chain.store.put, [1, 1]

    async def put_or_fail(*args: Any) -> object:
        if outages:
            outages.pop()
            raise VitascopeError(FailureCode.STORE_UNAVAILABLE)
        return await put(*args)

    monkeypatch.setattr(chain.store, "put", put_or_fail)
    await chain.run(chain.decode(), job)
    assert chain.decoder.tiles == [None]
    assert chain.keys("frames") == FRAME_KEYS


async def test_progress_counts_frames(chain: Chain) -> None:
    """From nothing to all frames, never backwards."""
    job = await chain.run_to(Stage.DECODE)
    async with progress_of(chain, progress_subject("default", job)) as messages:
        await chain.run(chain.decode(), job)
    shown = [Progress.model_validate_json(message) for message in messages]
    frames = [progress.step for progress in shown if progress.stage == "decode"]
    assert frames == sorted(set(frames))
    assert frames[-1] == sum(CHUNKS)


async def test_cancelled_run_waits_for_its_thread(chain: Chain) -> None:
    """A process that gives up a run leaves its decoder free for the next."""
    job = await chain.run_to(Stage.DECODE)
    running: list[asyncio.Task[None]] = []

    async def give_up() -> None:
        running[0].cancel()

    chain.decoder.points.acts[1] = give_up
    running.append(asyncio.create_task(chain.run(chain.decode(), job), name="run"))
    with pytest.raises(asyncio.CancelledError):
        await running[0]
    chain.decoder.points.acts.clear()
    await chain.run(chain.decode(), job)
    assert (await chain.record(job)).state is State.ENCODING


async def test_limits_come_from_the_record(chain: Chain) -> None:
    """What the run may take follows from the clip, and every chunk is a sign of life."""
    job = await chain.run_to(Stage.DECODE)
    pulse, seen = Pulse(), list[int]()

    async def look() -> None:
        seen.append(pulse.touches)

    chain.decoder.points.acts |= dict.fromkeys(range(len(CHUNKS)), look)
    await chain.decode().handle(await chain.work_for(job, Stage.DECODE), pulse)
    assert compute_limits(await chain.record(job), Stage.DECODE) == pulse.limits
    assert seen == sorted(set(seen))
    assert not pulse.is_waiting


async def test_store_that_is_away_is_not_the_decoders_silence(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a chunk cannot be stored the work counts as waiting, whatever the decoder does."""
    job = await chain.run_to(Stage.DECODE)
    pulse, put, seen = Pulse(), chain.store.put, list[bool]()

    async def put_seen(*args: Any) -> object:
        seen.append(pulse.is_waiting)
        return await put(*args)

    monkeypatch.setattr(chain.store, "put", put_seen)
    await chain.decode().handle(await chain.work_for(job, Stage.DECODE), pulse)
    assert [True] * len(CHUNKS) == seen


async def test_smaller_tiles_have_the_longer_allowance_again(chain: Chain) -> None:
    """Memory ran out late: the pace of whole frames says nothing about tiles."""
    chain.decoder.fits_px, chain.decoder.runs_out_at = 128, 2
    job = await chain.run_to(Stage.DECODE, width=256, height=128)
    pulse, seen = Pulse(), dict[int | None, float]()

    async def look() -> None:
        seen[chain.decoder.tiles[-1]] = pulse.stall_s

    chain.decoder.points.acts[0] = look
    await chain.decode().handle(await chain.work_for(job, Stage.DECODE), pulse)
    assert {None: pulse.limits.first_s, 128: pulse.limits.first_s} == seen


async def test_self_test_decodes_in_the_decoders_thread(chain: Chain) -> None:
    """A decoder that works proves it; one that does not says why."""
    handler = chain.decode()
    await handler.prove()
    chain.decoder.is_broken = True
    with pytest.raises(RuntimeError, match="the fake device is lost"):
        await handler.prove()
