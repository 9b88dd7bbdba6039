"""The harness notices what it is there for: products with a bug on purpose break the invariant that guards it."""

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio

from faults.evidence import Evidence, gather
from faults.injectors import PAUSE_S, Scene
from faults.invariants import check_all
from faults.plant import PlantOptions, running_plant
from faults.witness import Account, Witness
from faults.workload import DRAWN, Clients, References, wait_all_ended

REST_S = 4.0
SEED = 7
BUGGY: set[str] = set()
"""The processes that have a bug now: kept from test to test, so that each starts as few anew as it can."""

pytestmark = [pytest.mark.long, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """A pipeline for products with bugs."""
    options = PlantOptions(step_s=0.2, chunk_s=0.05)
    async with (
        running_plant(tmp_path_factory.mktemp("bugs"), options, SEED) as plant,
        Witness(plant.nats_url) as witness,
    ):
        scene = Scene(
            plant, witness, Clients(plant.url, plant.receiver.url, random.Random(SEED), "whole"), References()
        )
        await scene.references.make(scene.clients, (*DRAWN, "longer"))
        yield scene
        await scene.clients.http.aclose()


async def mutate(scene: Scene, bug: str, parts: set[str]) -> Clients:
    """Start some processes anew with a bug, and those anew without one that had another; clients of their own."""
    scene.plant.mutate(bug)
    await restart(scene, *(parts | BUGGY))
    BUGGY.clear()
    BUGGY.update(parts)
    return Clients(
        scene.plant.url, scene.plant.receiver.url, random.Random(SEED), bug.replace(" ", "-") or "whole-product"
    )


async def restart(scene: Scene, *parts: str) -> None:
    pids = {part: scene.plant.send(part, signal.SIGKILL) for part in parts}
    await asyncio.gather(*(scene.plant.wait_changed(part, pid) for part, pid in pids.items()))


async def judge(scene: Scene, clients: Clients) -> set[str]:
    """The invariants that were broken for the jobs of these clients."""
    await wait_all_ended(clients, scene.witness, 30)
    evidence = await gather(scene.plant, clients, scene.witness, scene.references, [], rest_s=REST_S)
    return {violation.invariant for violation in check_all(only(evidence, clients))}


def only(evidence: Evidence, clients: Clients) -> Evidence:
    """What concerns the jobs of these clients."""
    prefix = clients.jobs[0].key.rsplit("-", 2)[0]
    records = evidence.seen.newest_records()
    ids = {job for job, record in records.items() if record["admission"].get("idempotency_key", "").startswith(prefix)}
    account = evidence.seen
    evidence.seen = Account(
        [one for one in account.ledger if one.subject.rpartition(".")[2] in ids],
        [one for one in account.events if one.json()["job"] in ids],
        [one for one in account.progress if one.json()["job"] in ids],
        [one for one in account.work if one.subject.rpartition(".")[2] in ids],
    )
    evidence.journal = [entry for entry in evidence.journal if entry.get("job") in ids]
    evidence.objects = [key for key in evidence.objects if any(f"/{job}/" in key for job in ids)]
    evidence.work = [subject for subject in evidence.work if subject.rpartition(".")[2] in ids]
    return evidence


async def run_one(_scene: Scene, clients: Clients) -> None:
    await clients.wait(await clients.submit("least"))


async def run_long(_scene: Scene, clients: Clients) -> None:
    await clients.wait(await clients.submit("long"))


async def killed_late(scene: Scene, clients: Clients) -> None:
    job = await clients.submit("long")
    await clients.wait(job, lambda state: (state["step"] or 0) >= 12)
    group = scene.witness.seen.newest_records()[job.id]["run"]["group"]
    await restart(scene, "denoise" if group == "g0" else "denoise1")
    await clients.wait(job)


async def paused_past_the_lease(scene: Scene, clients: Clients) -> None:
    job = await clients.submit("longer")  # so long that both attempts are at it when the first wakes
    await clients.wait(job, lambda state: (state["step"] or 0) >= 3)
    group = scene.witness.seen.newest_records()[job.id]["run"]["group"]
    name = "denoise" if group == "g0" else "denoise1"
    scene.plant.send(name, signal.SIGSTOP)
    try:
        await asyncio.sleep(PAUSE_S)
    finally:
        scene.plant.send(name, signal.SIGCONT)
    await asyncio.sleep(5)


async def publish_restarted(scene: Scene, clients: Clients) -> None:
    await run_one(scene, clients)
    await scene.witness.catch_up()
    await restart(scene, "publish")
    await asyncio.sleep(3)


async def sent_twice(_scene: Scene, clients: Clients) -> None:
    job = await clients.submit("least")
    await clients.call("POST", "/v1/video-jobs", json=job.body, headers={"Idempotency-Key": job.key})


async def cancelled(_scene: Scene, clients: Clients) -> None:
    job = await clients.submit("long")
    await clients.wait(job, lambda state: (state["step"] or 0) >= 5)
    await clients.cancel(job)


Play = Callable[[Scene, Clients], Awaitable[None]]
BUGS: list[tuple[str, tuple[str, ...], Play, str]] = [
    ("fence", ("denoise", "denoise1"), paused_past_the_lease, "fence"),
    ("event ids", ("publish",), publish_restarted, "terminal event"),
    ("idempotency", ("ingress",), sent_twice, "one job a key"),
    ("checkpoint skipped", ("denoise", "denoise1"), killed_late, "steps bought"),
    ("old state resumed", ("denoise", "denoise1"), killed_late, "frames"),
    ("double dispatch", ("scheduler",), run_long, "one holder"),
    ("nothing removed", ("denoise", "denoise1", "publish"), cancelled, "orphan objects"),
]


@pytest.mark.parametrize(("bug", "parts", "play", "broken"), BUGS, ids=[bug for bug, *_ in BUGS])
async def test_a_bug_is_noticed(bench: Scene, bug: str, parts: tuple[str, ...], play: Play, broken: str) -> None:
    """With the bug the invariant is broken."""
    clients = await mutate(bench, bug, set(parts))
    await play(bench, clients)
    assert broken in await judge(bench, clients)
    await clients.http.aclose()


async def test_without_a_bug_nothing_is_noticed(bench: Scene) -> None:
    """The same happenings leave every invariant whole when the product is."""
    clients = await mutate(bench, "", set())
    for play in dict.fromkeys(play for _, _, play, _ in BUGS):
        await play(bench, clients)
    assert set() == await judge(bench, clients)
    await clients.http.aclose()
