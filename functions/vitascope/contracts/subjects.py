"""Streams, buckets and subjects: the one place where their names are spelt."""

from dataclasses import dataclass

from vitascope.contracts.flow import Stage
from vitascope.contracts.ids import is_job_id
from vitascope.contracts.jobs import JobRecord

STREAM_WORK = "VITASCOPE_WORK"
STREAM_EVENTS = "VITASCOPE_EVENTS"
STREAM_PROGRESS = "VITASCOPE_PROGRESS"
STREAM_DEAD = "VITASCOPE_DEAD"
BUCKET_JOBS = "VITASCOPE_JOBS"
BUCKET_IDEMPOTENCY = "VITASCOPE_IDEMPOTENCY"
BUCKET_GROUPS = "VITASCOPE_GROUPS"
BUCKET_LEASES = "VITASCOPE_LEASES"
BUCKET_TENANTS = "VITASCOPE_TENANTS"
BUCKET_DELIVERIES = "VITASCOPE_DELIVERIES"

WEBHOOK_CONSUMER = "webhooks"
"""The durable consumer of all public events."""

WORK_ALL = "vitascope.work.>"
WORK_DENOISE = f"{WORK_ALL[:-1]}{Stage.DENOISE}."
"""How the subjects of denoise work begin, and the filters of its consumers."""
EVENTS_ALL = "vitascope.events.>"
PROGRESS_ALL = "vitascope.progress.>"
DEAD_ALL = "vitascope.dead.>"


def work_subject(stage: Stage, pool: str, job: str, group: str | None = None) -> str:
    """Where a job's stage event goes: denoise to one group, decode and encode to any process of the pool.

    The job is the last token, so that whoever repairs a lost event can ask whether one is there.
    """
    return f"{_work_prefix(stage, pool, group)}.{job}"


def subject_of_work(record: JobRecord, stage: Stage) -> str:
    """Where the event of a stage of this very job goes; denoise needs a record that has its group."""
    return work_subject(stage, record.admission.pool, record.id, record.run.group if stage is Stage.DENOISE else None)


@dataclass(frozen=True)
class WorkPlace:
    """What a work subject says: which stage of which job, and for denoise at which group."""

    stage: Stage
    pool: str
    group: str | None
    job: str


def read_work_subject(subject: str) -> WorkPlace | None:
    """The arguments that `work_subject` made it of; None if it is not one of its."""
    _, _, stage, pool, *group, job = subject.split(".") if subject.count(".") in {4, 5} else ("",) * 5
    if stage not in set(Stage) or not is_job_id(job) or (stage == Stage.DENOISE) != bool(group):
        return None
    place = WorkPlace(Stage(stage), pool, group[0] if group else None, job)
    return place if work_subject(place.stage, pool, job, place.group) == subject else None


def work_filter(stage: Stage, pool: str, group: str | None = None) -> str:
    """The subjects that one durable consumer reads."""
    return f"{_work_prefix(stage, pool, group)}.*"


def work_consumer(stage: Stage, pool: str, group: str | None = None) -> str:
    """The name of the durable consumer that reads `work_filter` of the same arguments."""
    return "_".join((stage.value, pool, *((group,) if group else ())))


def _work_prefix(stage: Stage, pool: str, group: str | None) -> str:
    if (stage is Stage.DENOISE) != (group is not None):
        raise ValueError("denoise work, and only that, names its group")
    return ".".join(("vitascope.work", stage.value, pool, *((group,) if group else ())))


def event_subject(tenant: str, job: str, event_type: str) -> str:
    """Where a public event goes; the type's last words (`job.succeeded.v1`) are subject tokens of their own."""
    return f"vitascope.events.{tenant}.{job}.{event_type.removeprefix('dev.vitascope.')}"


def progress_subject(tenant: str, job: str) -> str:
    """The newest progress of a job."""
    return f"vitascope.progress.{tenant}.{job}"


def frames_subject(tenant: str, job: str, attempt: int) -> str:
    """How many pixel chunks of an attempt are ready."""
    return f"vitascope.progress.{tenant}.{job}.frames.{attempt}"


def control_subject(group: str) -> str:
    """The shortcut to a group; core NATS, nothing is kept."""
    return f"vitascope.control.{group}"


def dead_subject(stage: Stage, job: str) -> str:
    """Where an event goes that failed past its last try."""
    return f"vitascope.dead.{stage}.{job}"


def dead_event_subject(job: str) -> str:
    """Where a public event goes that cannot be read."""
    return f"vitascope.dead.webhook.{job}"


def group_key(pool: str, group: str) -> str:
    """The registry key of a group's row."""
    return f"{pool}.{group}"
