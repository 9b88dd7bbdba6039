"""What must be true of every run, whatever went wrong in it. Each looks at the evidence and yields what is not so."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from faults.evidence import Evidence, Span
from faults.plant import CHECKPOINT_EVERY
from faults.workload import ENDED

REBUILT = 1000
"""A rebuilt ledger raises attempts by so much."""
KEPT_BY_FAILED = frozenset({"records", "checkpoints", "latents", "frames"})
SHADOW_S = 20.0
"""A fault is felt for so long after its end: connections, redeliveries and leases have to come back."""
BLIND = ("partition", "s3", "nats", "pause", "disk", "clock")
"""Faults under which a checkpoint cannot be saved, or a group cannot learn that its job has gone: what is bought twice
then is the price of the fault, not of the product."""


@dataclass(frozen=True)
class Violation:
    """Something that must not be."""

    invariant: str
    job: str
    what: str


Invariant = Callable[[Evidence], Iterator[Violation]]


def check_all(evidence: Evidence) -> list[Violation]:
    """Every violation of every invariant."""
    return [violation for invariant in INVARIANTS for violation in invariant(evidence)]


def check_ended(evidence: Evidence) -> Iterator[Violation]:
    """Every accepted job has ended, as it had to."""
    ordered = _ordered_failures(evidence)
    for job in evidence.jobs:
        status = job.final["status"]
        if status not in ENDED:
            yield Violation("terminal", job.id, f"still {status}: {job.final.get('reason')}")
        elif status == "cancelled" and not job.is_cancelled:
            yield Violation("terminal", job.id, "cancelled by nobody")
        elif status == "failed" and job.id not in ordered:
            yield Violation("terminal", job.id, f"failed without a reason of the harness: {job.final['error']}")
        elif status not in {"succeeded", "cancelled", "failed"}:
            yield Violation("terminal", job.id, f"ended as {status}")


def check_frames(evidence: Evidence) -> Iterator[Violation]:
    """Each succeeded job has exactly one output, whose frames equal those of the run without a fault."""
    outputs = Counter(key.split("/")[2] for key in evidence.objects if key.startswith("outputs/") and "video" in key)
    for job in evidence.jobs:
        if job.final["status"] != "succeeded":
            continue
        assert job.request in evidence.references, f"nobody ran {job.request} without a fault"
        if outputs[job.id] != 1:
            yield Violation("one output", job.id, f"{outputs[job.id]} outputs")
        if evidence.frames[job.id] != evidence.references[job.request]:
            yield Violation("frames", job.id, f"other frames than without a fault ({job.kind})")


def check_events(evidence: Evidence) -> Iterator[Violation]:
    """Exactly one terminal event a job, once copies of one id are taken for one, and it says what the record says."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for seen in evidence.seen.events:
        told = seen.json()
        if told["state"] in ENDED:
            identity = seen.headers.get("ce-id", "")
            before = found[told["job"]].setdefault(identity, told["state"])
            if before != told["state"]:
                yield Violation("terminal event", told["job"], f"event {identity} says {before} and {told['state']}")
    for job in evidence.jobs:
        states = sorted(found[job.id].values())
        if states != [job.final["status"]]:
            yield Violation("terminal event", job.id, f"{dict(found[job.id])} for a job that is {job.final['status']}")


def check_hooks(evidence: Evidence) -> Iterator[Violation]:
    """Exactly one webhook tells of a job's end, once copies of one id are taken for one, and it says what is so."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for hook in evidence.hooks:
        if hook.state in ENDED:
            found[hook.job][hook.id] = hook.state
    for job in evidence.jobs:
        told = sorted(found[job.id].values())
        if told != [job.final["status"]]:
            yield Violation("webhook", job.id, f"{dict(found[job.id])} for a job that is {job.final['status']}")


def check_ledger(evidence: Evidence) -> Iterator[Violation]:
    """Attempts and safe steps never fall, states follow each other, and what a record names was made by its attempt."""
    before: dict[str, dict[str, Any]] = {}
    births: dict[str, str] = {}
    for seen in evidence.seen.ledger:
        if not seen.data:
            continue
        record = seen.json()
        job, run = record["id"], record["run"]
        old = before.get(job)
        before[job] = record
        is_rebuilt = births.get(job, seen.birth) != seen.birth  # it names what its copy in the store named
        births[job] = seen.birth
        if not is_rebuilt:
            yield from _check_made_by(job, run, old["run"] if old else {})
        if old is None:
            continue
        if run["attempt"] < old["run"]["attempt"]:
            yield Violation("attempts", job, f"attempt {old['run']['attempt']} and then {run['attempt']}")
        if old["run"]["state"] in ENDED and run["state"] != old["run"]["state"]:
            yield Violation("terminal is final", job, f"{old['run']['state']} and then {run['state']}")
        is_same = run["attempt"] == old["run"]["attempt"]
        if is_same and run["step"] < old["run"]["step"]:
            yield Violation("safe steps", job, f"step {old['run']['step']} and then {run['step']}")
        if is_same and (old["run"]["state"], run["state"]) == ("queued", "running"):
            yield Violation("attempts", job, f"dispatched again as attempt {run['attempt']}")


def _check_made_by(job: str, run: dict[str, Any], old: dict[str, Any]) -> Iterator[Violation]:
    for name in ("checkpoint", "latents"):
        now, then = _key_of(run.get(name)), _key_of(old.get(name))
        if now is not None and now != then:
            made_by = int(now.split("/")[3])
            if made_by != run["attempt"] and old:
                yield Violation("fence", job, f"attempt {run['attempt']} has {name} of attempt {made_by}")


def _key_of(reference: dict[str, Any] | None) -> str | None:
    return None if reference is None else str(reference.get("object", reference)["key"])


def check_progress(evidence: Evidence) -> Iterator[Violation]:
    """Progress of one stage of one attempt never falls, unless its process was replaced and it began again."""
    best: dict[tuple[str, int, str], int] = {}
    for seen in evidence.seen.progress:
        told = seen.json()
        if "stage" not in told or told["stage"] != "denoise":
            continue  # decode and encode begin again from what is kept, within the same attempt
        name = (told["job"], told["attempt"], told["stage"])
        if told["step"] < best.get(name, 0):
            yield Violation("progress", told["job"], f"attempt {told['attempt']}: {best[name]} and then {told['step']}")
        best[name] = max(best.get(name, 0), told["step"])
        if told["step"] > told["steps"]:
            yield Violation("progress", told["job"], f"step {told['step']} of {told['steps']}")


def check_steps(evidence: Evidence) -> Iterator[Violation]:
    """No step is bought more often than the checkpoint interval allows."""
    runs: dict[str, dict[tuple[int, int], list[tuple[float, int]]]] = defaultdict(lambda: defaultdict(list))
    for entry in evidence.journal:
        if entry["kind"] == "step":
            runs[entry["job"]][entry["attempt"], entry["pid"]].append((entry["t"], entry["step"]))
    for job, tries in runs.items():
        holders: dict[int, set[int]] = defaultdict(set)
        ordered = sorted(tries.items(), key=lambda item: item[1][0][0])
        for (attempt, pid), steps in ordered:
            holders[attempt].add(pid)
            numbers = [step for _, step in steps]
            if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
                yield Violation("steps", job, f"attempt {attempt} ran the steps {numbers}")
        for attempt, pids in holders.items():
            if len(pids) > 1:
                yield Violation("one holder", job, f"attempt {attempt} was run by {len(pids)} processes")
        yield from _check_bought(job, [steps for _, steps in ordered], evidence.spans)


def _check_bought(job: str, tries: list[list[tuple[float, int]]], spans: list[Span]) -> Iterator[Violation]:
    done = 0
    for index, steps in enumerate(tries):
        first, began = steps[0][1], steps[0][0]
        repeated = max(0, done - first + 1)
        # Taken at one boundary and still on its way at the next: two intervals may be lost with a process.
        allowed = 2 * CHECKPOINT_EVERY
        since = tries[index - 1][0][0] if index else began
        if index and repeated > allowed and not _is_blinded(spans, since, began):
            yield Violation(
                "steps bought", job, f"try {index + 1} began at step {first} after {done}: {repeated} again"
            )
        done = max(done, steps[-1][1])


def _is_blinded(spans: list[Span], since: float, until: float) -> bool:
    return any(span.name.startswith(BLIND) and span.began <= until and span.ended + SHADOW_S >= since for span in spans)


def check_identity(evidence: Evidence) -> Iterator[Violation]:
    """One job for each Idempotency-Key, and no job that nobody asked for."""
    by_key: dict[str, set[str]] = defaultdict(set)
    for job_id, record in evidence.seen.newest_records().items():
        by_key[record["admission"].get("idempotency_key", "")].add(job_id)
    known = {job.key: job.id for job in evidence.jobs}
    for key, ids in by_key.items():
        if len(ids) > 1:
            yield Violation("one job a key", key, f"{sorted(ids)}")
        elif key not in known:
            yield Violation("one job a key", key, f"{sorted(ids)}: nobody asked for it")
    for job in evidence.jobs:
        if job.id not in by_key[job.key]:
            yield Violation("accepted is durable", job.id, "not in the ledger")


def check_left(evidence: Evidence) -> Iterator[Violation]:
    """Nothing is left but what a job may keep: no objects, no work, no files in the making, no uploads."""
    states = {job.id: job.final["status"] for job in evidence.jobs}
    for key in evidence.objects:
        kind, *rest = key.split("/")
        if kind == "state":
            continue
        job = rest[1] if len(rest) > 1 else ""
        allowed = {
            "succeeded": {"records", "outputs"},
            "cancelled": {"records"},
            "failed": KEPT_BY_FAILED,
        }.get(states.get(job, ""), set())
        if kind not in allowed:
            yield Violation("orphan objects", job, f"{key} of a job that is {states.get(job, 'unknown')}")
    for subject in evidence.work:
        yield Violation("work left", subject.rpartition(".")[2], subject)
    for consumer, count in evidence.pending.items():
        yield Violation("work left", "", f"{count} deliveries of {consumer} not ended")
    for name in evidence.scratch:
        yield Violation("files left", "", name)
    for key in evidence.uploads:
        yield Violation("uploads left", "", key)


def check_processes(evidence: Evidence) -> Iterator[Violation]:
    """Exactly one process of each name."""
    if evidence.processes != evidence.expected_processes:
        yield Violation("processes", "", f"{evidence.processes} and not {evidence.expected_processes}")


def _ordered_failures(evidence: Evidence) -> set[str]:
    """Jobs that a model failed for good because the harness said so."""
    return {
        entry["job"]
        for entry in evidence.journal
        if entry["kind"] == "fault" and entry["how"] == "oom" and entry["stage"] == "denoise" and "job" in entry
    }


INVARIANTS: tuple[Invariant, ...] = (
    check_ended,
    check_frames,
    check_events,
    check_hooks,
    check_ledger,
    check_progress,
    check_steps,
    check_identity,
    check_left,
    check_processes,
)
