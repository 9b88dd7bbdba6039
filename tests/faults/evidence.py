"""What the world looks like once everything has come to rest: gathered from outside, handed to the invariants."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
from minio import Minio

from faults.plant import Plant
from faults.receiver import Hook
from faults.witness import Account, Witness
from faults.workload import Clients, Job, References, digest_frames

REST_S = 75.0
"""So long cleaning up may take after the last job has ended."""
BUCKET = "vitascope"


@dataclass(frozen=True)
class Span:
    """A fault, from its beginning to its end, in seconds of the monotonic clock."""

    name: str
    target: str
    began: float
    ended: float


@dataclass
class Evidence:
    """Everything that the invariants look at."""

    jobs: list[Job]
    seen: Account
    journal: list[dict[str, Any]]
    spans: list[Span]
    references: dict[tuple[str, int], str]
    objects: list[str] = field(default_factory=list)
    uploads: list[str] = field(default_factory=list)
    work: list[str] = field(default_factory=list)
    pending: dict[str, int] = field(default_factory=dict)
    processes: dict[str, list[int]] = field(default_factory=dict)
    expected_processes: dict[str, list[int]] = field(default_factory=dict)
    scratch: list[str] = field(default_factory=list)
    hooks: list[Hook] = field(default_factory=list)
    frames: dict[str, str] = field(default_factory=dict)


async def gather(
    plant: Plant,
    clients: Clients,
    witness: Witness,
    references: References,
    spans: list[Span],
    *,
    rest_s: float = REST_S,
) -> Evidence:
    """Wait for rest, then look at everything. What does not come to rest in time is seen as it is."""
    await plant.wait_all_ready()
    await witness.catch_up()
    await clients.collect()
    evidence = Evidence(clients.jobs, witness.seen, [], spans, references.frames)
    deadline = time.monotonic() + rest_s
    while True:
        evidence.objects, evidence.uploads = await asyncio.to_thread(_list_objects, plant)
        evidence.work = await witness.list_work()
        consumers = await witness.list_consumers()
        evidence.pending = {
            name: told["num_ack_pending"] for name, told in consumers.items() if told["num_ack_pending"]
        }
        evidence.scratch = _list_scratch(plant)
        evidence.hooks = list(plant.receiver.hooks)
        if time.monotonic() > deadline or not _is_untidy(evidence):
            break
        await asyncio.sleep(1.0)
    evidence.processes = plant.list_processes()
    evidence.expected_processes = {name: [plant.pid(name)] for name in (*plant.parts, "nats", "s3")}
    evidence.journal = plant.read_journal()
    for job in clients.jobs:
        if job.final["status"] == "succeeded":
            evidence.frames[job.id] = await _digest_file(clients, job)
    await witness.catch_up()
    return evidence


async def _digest_file(clients: Clients, job: Job) -> str:
    """The digest of a finished video's frames; of one that is said to be there and is not, what the door says."""
    try:
        content = await clients.content(job)
    except httpx.HTTPStatusError as error:
        return f"no file: {error.response.text}"
    return await asyncio.to_thread(digest_frames, content)


def _is_untidy(evidence: Evidence) -> bool:
    from faults.invariants import check_hooks, check_left  # noqa: PLC0415 (the invariants look at evidence)

    return bool([*check_left(evidence), *check_hooks(evidence)])


def _list_objects(plant: Plant) -> tuple[list[str], list[str]]:
    secrets = plant.folder.credentials
    client = Minio(plant.s3_address, secrets.s3_access_key, secrets.s3_secret_key, secure=False)
    keys = [str(item.object_name) for item in client.list_objects(BUCKET, recursive=True)]
    uploads = client._list_multipart_uploads(BUCKET).uploads
    return keys, [str(upload.object_name) for upload in uploads]


def _list_scratch(plant: Plant) -> list[str]:
    """Files in the making, and folders of encode processes besides the one that runs."""
    folders = sorted((plant.folder.run / "scratch").iterdir())
    return [path.name for path in folders[1:]] + [str(path) for folder in folders for path in folder.iterdir()]
