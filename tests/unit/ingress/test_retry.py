"""Retry at the door: where the new job starts, that there is one of it, and what a crash on the way leaves."""

import asyncio
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from doors import JOBS, Crash, Faulty, World, get_door, open_door, read_error, submit, until
from records import ENGINE, object_ref
from vitascope.catalog import Catalog
from vitascope.contracts import transitions
from vitascope.contracts.events import WorkItem
from vitascope.contracts.failures import Failure, FailureCode, VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.contracts.jobs import Checkpoint, JobRecord, ObjectRef
from vitascope.contracts.objects import checkpoint_key, latents_key, record_key, record_keys
from vitascope.contracts.subjects import work_subject
from vitascope.ingress.retry import compute_reason
from vitascope.runtime.ports import Stamped

LATENTS, STATE = b"latents" * 100, b"state" * 100
OTHER_STATES = [state for state in State if state not in {State.FAILED, State.REFUSED, State.WITHHELD}]


async def test_kept_latents_are_decoded_again(world: World, client: httpx.AsyncClient) -> None:
    """The new job starts at decode with a copy of its own and nothing of the failure; the failed one stays."""
    failed = await _fail_decode(world, await _submit(client, seed=5, labels={"a": "b"}))
    response = await client.post(f"{JOBS}/{failed.record.id}/retry")
    assert 202 == response.status_code, response.text
    view = response.json()
    assert (failed.record.id, "decoding", "decode") == (view["retry_of"], view["status"], view["stage"])
    assert f"{JOBS}/{view['id']}" == response.headers["location"]
    assert "idempotency-replayed" not in response.headers
    assert ({"a": "b"}, 5, 1, None) == (view["labels"], view["seed"], view["attempt"], view["error"])
    assert view["reason"].endswith("its latents are kept, so it starts at decode.")
    record = (await world.load(view["id"])).record
    assert latents_key(record, 1) == (record.run.latents or object_ref("none")).key
    assert LATENTS == world.store.objects[latents_key(record, 1)] == world.store.objects[_latents(failed).key]
    assert record == JobRecord.from_bytes(world.store.objects[record_key(record)])
    assert WorkItem(job=record.id, tenant="default", attempt=1, stage=Stage.DECODE) == await _take_work(world)
    assert failed == await world.load(failed.record.id)
    assert view["id"] == (await client.get(f"{JOBS}/{failed.record.id}")).json()["retried_as"]


async def test_a_kept_checkpoint_is_gone_on_from(world: World, client: httpx.AsyncClient) -> None:
    """Queued, with a copy of the checkpoint; no start deadline and no count of failures are taken over."""
    failed = await _fail_denoise(world, await _submit(client, start_deadline=60), step=7)
    view = await _retry(client, failed)
    record = (await world.load(view["id"])).record
    assert ("queued", 0, 7, None, 0) == (
        view["status"], view["attempt"], view["step"], view["start_deadline"], record.run.failures
    )  # fmt: skip
    assert "it goes on after step 7 of 24." in view["reason"]
    assert "No GPU group" in view["reason"]
    kept = record.run.checkpoint
    assert kept is not None
    assert (checkpoint_key(record, 1, 7), "fp", STATE) == (
        kept.object.key, kept.fingerprint, world.store.objects[kept.object.key]
    )  # fmt: skip
    assert not await world.broker.bus.has_work(work_subject(Stage.DECODE, "default", record.id))


@pytest.mark.parametrize("has_expired", [True, False], ids=["objects-expired", "no-checkpoint-yet"])
async def test_with_nothing_left_it_starts_anew(world: World, client: httpx.AsyncClient, *, has_expired: bool) -> None:
    """And says that the GPU time is paid again."""
    if has_expired:
        failed = await _fail_decode(world, await _submit(client), step=7)
        await world.store.remove([key for key in world.store.objects if key.startswith(("latents/", "checkpoints/"))])
    else:
        failed = await _fail_denoise(world, await _submit(client))
    view = await _retry(client, failed)
    record = (await world.load(view["id"])).record
    assert ("queued", 0, None) == (view["status"], view["step"], record.run.checkpoint)
    assert "GPU time is bought again" in view["reason"]
    assert {record_key(record), record_keys(failed.record)[1]} == set(world.store.objects)


async def test_expired_latents_leave_the_checkpoint(world: World, client: httpx.AsyncClient) -> None:
    """What is in the store counts, not the stage that failed."""
    failed = await _fail_decode(world, await _submit(client), step=7)
    await world.store.remove([_latents(failed).key])
    view = await _retry(client, failed)
    assert ("queued", 7) == (view["status"], view["step"])


@dataclass(frozen=True)
class Damage:
    """What befell the latents, the failure that it gave, and where the retry starts."""

    content: bytes
    code: FailureCode
    status: str


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(Damage(LATENTS, FailureCode.OBJECT_CORRUPT, "decoding"), id="whole-after-all"),
        pytest.param(Damage(LATENTS[::-1], FailureCode.OBJECT_CORRUPT, "queued"), id="same-length"),
        pytest.param(Damage(LATENTS[1:], FailureCode.DECODE_FAILED, "queued"), id="other-length"),
    ],
)
async def test_damaged_latents_are_not_taken_over(world: World, client: httpx.AsyncClient, damage: Damage) -> None:
    """Else the new job would fail as the first one did."""
    failed = await _fail_decode(world, await _submit(client), damage.code)
    world.store.objects[_latents(failed).key] = damage.content
    assert damage.status == (await _retry(client, failed))["status"]


@pytest.mark.parametrize("state", OTHER_STATES)
async def test_only_a_failed_job_is_retried(world: World, client: httpx.AsyncClient, state: State) -> None:
    """409 with the state, and no job is made."""
    job = await _submit(client)
    before = await _bring_to(world, job, state)
    objects = dict(world.store.objects)
    error = read_error(await client.post(f"{JOBS}/{job}/retry"), 409, "not_retryable")
    assert f"It is {state}." in error["message"]
    assert (before, 1, objects) == (await world.load(job), await world.count_jobs(), world.store.objects)


@pytest.mark.parametrize("replicas", [1, 2])
async def test_concurrent_retries_are_one_job(world: World, replicas: int) -> None:
    """Whoever loses answers with the winner's job; there is one event and one copy of the latents."""
    async with open_door(world.make_app()) as one, open_door(world.make_app()) as other:
        failed = await _fail_decode(world, await _submit(one))
        doors = (one, other)[:replicas]
        path = f"{JOBS}/{failed.record.id}/retry"
        answers = await asyncio.gather(*(door.post(path) for door in doors * (8 // replicas)))
    assert {202} == {answer.status_code for answer in answers}, answers[0].text
    (job,) = {answer.json()["id"] for answer in answers}
    assert 7 == sum(answer.headers.get("idempotency-replayed") == "true" for answer in answers)
    assert 2 == await world.count_jobs()
    assert [job] == [key.split("/")[2] for key in world.store.objects if key.startswith("latents/") and job in key]
    await _take_work(world)
    assert not await world.broker.bus.has_work(work_subject(Stage.DECODE, "default", job))


async def test_a_later_retry_shows_what_has_become_of_it(world: World, client: httpx.AsyncClient) -> None:
    """The same job, cancelled meanwhile; nothing is made or copied any more."""
    failed = await _fail_decode(world, await _submit(client))
    job = (await _retry(client, failed))["id"]
    await client.post(f"{JOBS}/{job}/cancel")
    world.time.advance(3600)
    objects = dict(world.store.objects)
    response = await client.post(f"{JOBS}/{failed.record.id}/retry")
    assert (job, "cancelled", "true") == (
        response.json()["id"], response.json()["status"], response.headers["idempotency-replayed"]
    )  # fmt: skip
    assert objects == world.store.objects


async def test_a_failed_retry_is_retried_itself(world: World, client: httpx.AsyncClient) -> None:
    """From its own copy of the latents."""
    first = await _fail_decode(world, await _submit(client))
    second = await world.load((await _retry(client, first))["id"])
    failure = Failure.of(FailureCode.DECODE_FAILED, stage=Stage.DECODE)
    again = await world.change(second.record.id, transitions.fail(second.record, 1, failure, world.time.now()))
    await world.store.remove([_latents(first).key])
    third = await _retry(client, again)
    assert ("decoding", second.record.id) == (third["status"], third["retry_of"])
    assert second.record.id == (await _retry(client, first))["id"]


async def test_a_retry_is_known_after_the_ledger_was_lost(world: World) -> None:
    """With what was remembered; the rebuilt records say it as well, and until all are there nobody decides."""
    async with open_door(world.make_app()) as client:
        failed = await _fail_decode(world, await _submit(client))
        job = (await _retry(client, failed))["id"]
    retried = await world.load(job)
    world.broker.ledger.lose()
    await world.broker.ledger.create(transitions.rebuild(failed.record))
    app = world.make_app()
    async with open_door(app) as client:
        read_error(await client.post(f"{JOBS}/{failed.record.id}/retry"), 503, "service_unavailable")
        await world.broker.ledger.create(transitions.rebuild(retried.record))
        world.mark_complete()
        await until(lambda: get_door(app).jobs.find_retry(failed.record.id))
        view = await _retry(client, failed)
        assert (job, 1001) == (view["id"], view["attempt"])
    assert 2 == await world.count_jobs()


STEPS = [
    pytest.param("ledger", "remember", False, id="before-the-draw"),
    pytest.param("ledger", "remember", True, id="after-the-draw"),
    pytest.param("store", "copy", False, id="before-the-objects"),
    pytest.param("store", "copy", True, id="after-the-objects"),
    pytest.param("store", "put", False, id="before-the-copy"),
    pytest.param("store", "put", True, id="after-the-copy"),
    pytest.param("ledger", "create", False, id="before-the-record"),
    pytest.param("ledger", "create", True, id="after-the-record"),
    pytest.param("bus", "publish_work", False, id="before-the-event"),
    pytest.param("bus", "publish_work", True, id="after-the-event"),
]


@pytest.mark.parametrize(("port", "method", "is_after"), STEPS)
async def test_another_request_finishes_what_a_crash_left(
    world: World, port: str, method: str, *, is_after: bool
) -> None:
    """The replica dies between two steps: one new job, whole; only a lost event may be left to the scheduler."""
    async with open_door(world.make_app()) as client:
        failed = await _fail_decode(world, await _submit(client))
    async with open_door(_faulty_app(world, port, method, Crash(), is_after=is_after)) as client:
        with pytest.raises(Crash):
            await client.post(f"{JOBS}/{failed.record.id}/retry")
    world.time.advance(60)
    async with open_door(world.make_app()) as client:
        job = (await _retry(client, failed))["id"]
    record = (await world.load(job)).record
    assert (2, State.DECODING) == (await world.count_jobs(), record.state)
    assert LATENTS == await world.store.get(record.run.latents or "")
    assert record == JobRecord.from_bytes(world.store.objects[record_key(record)])
    has_event = await world.broker.bus.has_work(work_subject(Stage.DECODE, "default", job))
    is_left_to_the_scheduler = (method, is_after) in {("create", True), ("publish_work", False)}
    assert has_event is not is_left_to_the_scheduler


@pytest.mark.parametrize(
    ("port", "method", "code"),
    [
        pytest.param("ledger", "remember", FailureCode.BUS_UNAVAILABLE, id="ledger"),
        pytest.param("store", "copy", FailureCode.STORE_UNAVAILABLE, id="store-copy"),
        pytest.param("store", "put", FailureCode.STORE_FULL, id="store-put"),
    ],
)
async def test_an_outage_is_503_and_no_job(world: World, port: str, method: str, code: FailureCode) -> None:
    """A store that is away does not pass for one that has nothing: GPU time would be bought again for nothing."""
    async with open_door(world.make_app()) as client:
        failed = await _fail_decode(world, await _submit(client))
    async with open_door(_faulty_app(world, port, method, VitascopeError(code))) as client:
        read_error(await client.post(f"{JOBS}/{failed.record.id}/retry"), 503, "service_unavailable")
        assert 1 == await world.count_jobs()
        assert "decoding" == (await _retry(client, failed))["status"]


async def test_an_event_that_cannot_be_published_is_left_to_the_scheduler(world: World) -> None:
    """The job exists, and the client has it."""
    error = VitascopeError(FailureCode.BUS_UNAVAILABLE)
    async with open_door(_faulty_app(world, "bus", "publish_work", error)) as client:
        failed = await _fail_decode(world, await _submit(client))
        assert "decoding" == (await _retry(client, failed))["status"]


async def test_a_full_queue_refuses_who_would_join_it(world: World) -> None:
    """Nothing is copied for a refused one; a retry that starts at decode waits for no GPU group."""
    async with open_door(world.make_app(max_queued=1)) as client:
        unfinished = await _fail_denoise(world, await _submit(client), step=7)
        undecoded = await _fail_decode(world, await _submit(client))
        waiting = await _submit(client)
        objects = dict(world.store.objects)
        read_error(await client.post(f"{JOBS}/{unfinished.record.id}/retry"), 429, "queue_full")
        assert objects == world.store.objects
        assert "decoding" == (await _retry(client, undecoded))["status"]
        await client.post(f"{JOBS}/{waiting}/cancel")
        assert "queued" == (await _retry(client, unfinished))["status"]


async def test_a_job_of_a_model_that_is_gone_is_refused(world: World) -> None:
    """It would wait for ever; one that was retried before is answered all the same."""
    (entry,) = world.catalog.entries
    gone = Catalog((entry.model_copy(update={"name": "other"}),))
    async with open_door(world.make_app()) as client, open_door(world.make_app(catalog=gone)) as without:
        failed, known = [await _fail_decode(world, await _submit(client)) for _ in range(2)]
        job = (await _retry(client, known))["id"]
        error = read_error(await without.post(f"{JOBS}/{failed.record.id}/retry"), 404, "model_not_found")
        assert "tiny-wan" in error["message"]
        assert job == (await _retry(without, known))["id"]


@pytest.mark.parametrize(
    ("code", "warns"),
    [
        pytest.param(FailureCode.DECODE_FAILED, False, id="retryable"),
        pytest.param(FailureCode.REQUEST_UNFIT, True, id="terminal"),
        pytest.param(FailureCode.MODEL_FOLDER_INVALID, True, id="mendable"),
        pytest.param(FailureCode.START_DEADLINE_PASSED, False, id="deadline-is-not-taken-over"),
        pytest.param(FailureCode.OBJECT_MISSING, False, id="object-is-not-taken-over"),
    ],
)
async def test_the_reason_warns_of_a_failure_that_comes_again(
    world: World, client: httpx.AsyncClient, code: FailureCode, *, warns: bool
) -> None:
    """The operator may have mended the cause, so it is allowed."""
    job = await _submit(client)
    queued = (await world.load(job)).record
    failed = await world.change(job, transitions.fail(queued, 0, Failure.of(code), world.time.now()))
    assert warns is (f"{code} comes again" in compute_reason(failed.record, None, None))
    assert "it had not started" in (await _retry(client, failed))["reason"]


async def _submit(client: httpx.AsyncClient, **body: Any) -> str:
    return str((await submit(client, **body))["id"])


async def _retry(client: httpx.AsyncClient, failed: Stamped) -> dict[str, Any]:
    response = await client.post(f"{JOBS}/{failed.record.id}/retry")
    assert response.status_code == 202, response.text
    view: dict[str, Any] = response.json()
    return view


async def _run(world: World, job: str, step: int) -> JobRecord:
    """Queued to running, with a checkpoint if a step is given."""
    record = (await world.start(job)).record
    if step:
        stored = await world.store.put(checkpoint_key(record, 1, step), STATE, "application/vnd.safetensors")
        record = transitions.note_checkpoint(record, 1, Checkpoint(object=stored, step=step, fingerprint="fp"))
        await world.change(job, record)
    return record


async def _fail_denoise(world: World, job: str, *, step: int = 0) -> Stamped:
    record = await _run(world, job, step)
    failure = Failure.of(FailureCode.DENOISE_FAILED, stage=Stage.DENOISE)
    return await world.change(job, transitions.fail(record, 1, failure, world.time.now()))


async def _fail_decode(
    world: World, job: str, code: FailureCode = FailureCode.DECODE_FAILED, *, step: int = 0
) -> Stamped:
    record, now = await _run(world, job, step), world.time.now()
    latents = await world.store.put(latents_key(record, 1), LATENTS, "application/vnd.safetensors")
    done = transitions.finish_denoise(record, 1, latents=latents, engine=ENGINE, gpu_s=1.0, stage_s=1.0, now=now)
    return await world.change(job, done, transitions.fail(done, 1, Failure.of(code, stage=Stage.DECODE), now))


async def _bring_to(world: World, job: str, state: State) -> Stamped:
    now = world.time.now()
    match state:
        case State.CANCELLED:
            return await world.change(job, transitions.cancel((await world.load(job)).record, now))
        case State.SUCCEEDED:
            return await world.finish(job)
        case State.EXPIRED:
            failed = await _fail_decode(world, job)
            return await world.change(job, transitions.expire(failed.record, now))
        case State.RUNNING:
            return await world.start(job)
        case State.DECODING | State.ENCODING:
            record = await _run(world, job, 0)
            done = transitions.finish_denoise(
                record, 1, latents=object_ref(), engine=ENGINE, gpu_s=1.0, stage_s=1.0, now=now
            )
            decoded = transitions.finish_decode(done, 1, chunks=5, stage_s=1.0, now=now)
            return await world.change(job, *([done] if state is State.DECODING else [done, decoded]))
    return await world.load(job)


def _latents(failed: Stamped) -> ObjectRef:
    assert failed.record.run.latents is not None
    return failed.record.run.latents


async def _take_work(world: World) -> WorkItem:
    """The only decode work there is, done at once."""
    assert 1 == len(await world.broker.bus.list_work())
    async with world.broker.bus.consume(Stage.DECODE, "default") as deliveries:
        delivery = await anext(deliveries)
        await delivery.ack()
        return WorkItem.from_event(delivery.event)


def _faulty_app(world: World, port: str, method: str, error: Exception, **options: Any) -> Any:
    real: Any = {"ledger": world.broker.ledger, "store": world.store, "bus": world.broker.bus}[port]
    return world.make_app(**{port: Faulty(real, method, error, **options)})
