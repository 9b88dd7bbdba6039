"""The encode handler when something is wrong: bad chunks, impossible options, outages."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from unit.denoise.chain import CHUNKS, Chain, files_in
from unit.encode.chained import succeeded
from vitascope.contracts.events import CloudEvent
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import audio_key, chunk_key
from vitascope.runtime.stage import Pulse

FRAMES = sum(CHUNKS)


async def _damage_chunk(chain: Chain, record: JobRecord) -> None:
    chain.store.objects[chunk_key(record, 1, 1)] = b"no chunk"


async def _swap_chunks(chain: Chain, record: JobRecord) -> None:
    chain.store.objects[chunk_key(record, 1, 1)] = chain.store.objects[chunk_key(record, 1, 2)]


async def _lose_chunk(chain: Chain, record: JobRecord) -> None:
    del chain.store.objects[chunk_key(record, 1, 2)]


async def _damage_sound(chain: Chain, record: JobRecord) -> None:
    chain.store.objects[audio_key(record, 1)] = b"no sound"


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        pytest.param(_damage_chunk, FailureCode.OBJECT_CORRUPT, id="damaged chunk"),
        pytest.param(_swap_chunks, FailureCode.OBJECT_CORRUPT, id="wrong chunk"),
        pytest.param(_lose_chunk, FailureCode.OBJECT_MISSING, id="lost chunk"),
        pytest.param(_damage_sound, FailureCode.OBJECT_CORRUPT, id="damaged sound"),
    ],
)
async def test_bad_chunk_has_its_code(
    chain: Chain,
    spoil: Callable[[Chain, JobRecord], Awaitable[None]],
    code: FailureCode,
    tmp_path: Path,
) -> None:
    """What cannot be encoded fails by its code, publishes nothing, and leaves no scratch file."""
    job = await chain.run_to(Stage.ENCODE)
    await spoil(chain, await chain.record(job))
    with pytest.raises(VitascopeError) as caught:
        await chain.run(chain.encode(), job)
    assert code is caught.value.code
    assert chain.keys("outputs") == []
    assert files_in(tmp_path) == []


async def test_impossible_options_are_refused(chain: Chain) -> None:
    """Such a job would fail again: it is not tried again."""
    job = await chain.run_to(Stage.ENCODE, video_codec_options={"crf": "high"})
    with pytest.raises(VitascopeError, match="crf") as caught:
        await chain.run(chain.encode(), job)
    assert caught.value.code is FailureCode.INVALID_REQUEST


async def test_outage_during_publication_costs_no_second_encode(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The finished file waits until the store is back."""
    job = await chain.run_to(Stage.ENCODE)
    put_file, outages = chain.store.put_file, [1, 1]

    async def put_or_fail(*args: Any) -> object:
        if outages:
            outages.pop()
            raise VitascopeError(FailureCode.STORE_UNAVAILABLE)
        return await put_file(*args)

    monkeypatch.setattr(chain.store, "put_file", put_or_fail)
    await chain.run(chain.encode(), job)
    await succeeded(chain, job)


async def test_every_stage_hands_its_own_event_on(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """The events of a job are equal whenever they are published, so that copies are known."""
    seen: list[tuple[str, CloudEvent]] = []
    publish = chain.bus.publish_work

    async def note(subject: str, event: CloudEvent) -> None:
        seen.append((subject, event))
        await publish(subject, event)

    monkeypatch.setattr(chain.bus, "publish_work", note)
    job = await chain.run_to(Stage.DECODE)
    decode_work = await chain.work_for(job, Stage.DECODE)
    for _ in range(2):
        await chain.decode().handle(decode_work, Pulse())
    assert [f"{job}:decode:1", f"{job}:encode:1", f"{job}:encode:1"] == [event.id for _, event in seen]
