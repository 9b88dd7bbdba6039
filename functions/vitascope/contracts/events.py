"""CloudEvents 1.0: the envelope of everything that travels on the bus, and the events of ours.

Binary mode of the NATS protocol binding: attributes are `ce-` headers, percent-encoded as the binding says; the body
is the data alone.
"""

from collections.abc import Mapping
from datetime import datetime
from urllib.parse import quote, unquote

from pydantic import AwareDatetime, Field, JsonValue

from vitascope.contracts.flow import Stage
from vitascope.contracts.frozen import Frozen, Stored
from vitascope.contracts.ids import JobId, Token
from vitascope.contracts.jobs import JobRecord

TYPE_PREFIX = "dev.vitascope"
SPEC_VERSION = "1.0"
CALLBACK_EXTENSION = "callback"
"""Set if the job has a callback address, so that only then somebody has to look it up in the record."""
EVENT_MAX_BYTES = 64 * 1024
"""A message may not be larger: references travel, tensors never do."""

# The binding encodes a space, the double quote, the percent sign and all outside U+0021 to U+007E.
_UNESCAPED = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) not in '"%')


class CloudEvent(Frozen):
    """An event. `source` and `id` together name it: a second one with both equal is a copy."""

    id: str = Field(min_length=1)
    source: str = Field(min_length=1)
    type: str = Field(min_length=1)
    subject: str | None = None
    time: AwareDatetime | None = None
    data: JsonValue = None
    extensions: dict[str, str] = Field(default_factory=dict)


class WorkItem(Stored):
    """The data of a stage event: which job, which attempt, which stage. All else stands in the record."""

    job: JobId
    tenant: Token
    attempt: int = Field(ge=1)
    stage: Stage

    @property
    def message_id(self) -> str:
        """Equal for copies of one piece of work; a retry has a new attempt, so it is never taken for a copy."""
        return f"{self.job}:{self.stage}:{self.attempt}"

    def to_event(self, now: datetime) -> CloudEvent:
        """The envelope that goes on the bus."""
        return CloudEvent(
            id=self.message_id,
            source="/vitascope/scheduler",
            type=f"{TYPE_PREFIX}.work.{self.stage}.v1",
            subject=self.job,
            time=now,
            data=self.model_dump(mode="json"),
        )

    @classmethod
    def from_event(cls, event: CloudEvent) -> "WorkItem":
        """The work that an event asks for.

        Raises:
            pydantic.ValidationError: it is no work item.
        """
        return cls.model_validate(event.data)


def make_work_item(record: JobRecord, stage: Stage) -> WorkItem:
    """The work item of a record's present attempt."""
    return WorkItem(job=record.id, tenant=record.request.tenant, attempt=record.run.attempt, stage=stage)


class Progress(Stored):
    """The newest state of a job's stage, for people who wait. Lost ones do no harm."""

    job: JobId
    attempt: int
    stage: str
    step: int
    steps: int
    step_s: float | None = Field(None, description="seconds a step, running average")
    remaining_s: float | None = Field(None, description="seconds that this stage still needs")
    time: AwareDatetime


class FramesReady(Stored):
    """How many pixel chunks of an attempt are in the store: encode follows it chunk by chunk."""

    job: JobId
    attempt: int
    chunks: int = Field(ge=0)
    frames: int = Field(ge=0)
    has_audio: bool = False
    done: bool = False


class Control(Stored):
    """The shortcut to a group that something in the ledger concerns it: look at that job now."""

    job: JobId
    attempt: int


def make_job_event(record: JobRecord, revision: int, now: datetime) -> CloudEvent:
    """The public event of a record's present state.

    Its id is the job, the attempt and the state, which come together once in a job's life: announced again by another
    process or after a restart, it is known as the same event. `sequence` is the ledger's revision.
    """
    record_view: dict[str, JsonValue] = {
        "job": record.id,
        "state": record.state.value,
        "attempt": record.run.attempt,
        "reason": record.run.reason,
        "failure": record.run.failure.model_dump(mode="json") if record.run.failure else None,
    }
    return CloudEvent(
        id=f"{record.id}:{record.run.attempt}:{record.state}",
        source=f"/vitascope/tenants/{record.request.tenant}/jobs",
        type=f"{TYPE_PREFIX}.job.{record.state}.v1",
        subject=record.id,
        time=now,
        data=record_view,
        extensions={
            "sequence": str(revision),
            "partitionkey": record.id,
            **({CALLBACK_EXTENSION: "1"} if record.admission.callback_url else {}),
        },
    )


def to_headers(event: CloudEvent) -> dict[str, str]:
    """The attributes as message headers of binary mode."""
    attributes = {
        "specversion": SPEC_VERSION,
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "subject": event.subject,
        "time": event.time.isoformat() if event.time else None,
        "datacontenttype": "application/json",
        **event.extensions,
    }
    return {f"ce-{name}": quote(value, safe=_UNESCAPED) for name, value in attributes.items() if value is not None}


def from_headers(headers: Mapping[str, str], data: JsonValue) -> CloudEvent:
    """The event of a binary-mode message.

    Raises:
        ValueError: not CloudEvents 1.0, an attribute is missing or not valid UTF-8.
    """
    attributes = {
        name.lower().removeprefix("ce-"): unquote(value, errors="strict")
        for name, value in headers.items()
        if name.lower().startswith("ce-")
    }
    if attributes.pop("specversion", None) != SPEC_VERSION:
        raise ValueError("not a CloudEvents 1.0 message")
    attributes.pop("datacontenttype", None)
    named = {name: attributes.pop(name) for name in ("id", "source", "type", "subject", "time") if name in attributes}
    return CloudEvent.model_validate({**named, "data": data, "extensions": attributes})
