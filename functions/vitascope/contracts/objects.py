"""Object keys: the one place where they are spelt. Names from clients never reach a key."""

import re
from dataclasses import dataclass
from enum import StrEnum

from vitascope.contracts.ids import is_job_id
from vitascope.contracts.jobs import JobRecord


class ObjectClass(StrEnum):
    """The first segment of every key, so that a lifecycle rule can expire each class on its own."""

    RECORDS = "records"
    INPUTS = "inputs"
    CHECKPOINTS = "checkpoints"
    LATENTS = "latents"
    FRAMES = "frames"
    OUTPUTS = "outputs"


PROBE_KEY = "state/probe"
"""An object that is not there: asking for it shows whether the store answers and knows our keys."""
REBUILT_KEY = "state/rebuilt.json"
"""Which ledger holds every accepted job; see `runtime.completeness`."""
TENANTS_PREFIX = "state/tenants/"
"""The copies of the tenants' documents; see `runtime.tenants`."""


_LIVE, _ENDED = "record.json", "ended.json"


@dataclass(frozen=True)
class ObjectPlace:
    """What a key says of its object; `attempt` is None where the class has none."""

    kind: ObjectClass
    tenant: str
    job: str
    attempt: int | None

    @property
    def live_record_key(self) -> str:
        """The copy of the job's record while it was live."""
        return f"{ObjectClass.RECORDS}/{self.tenant}/{self.job}/{_LIVE}"

    @property
    def ended_record_key(self) -> str:
        """The copy of the job's record once it had ended; in listings it comes before the other."""
        return f"{ObjectClass.RECORDS}/{self.tenant}/{self.job}/{_ENDED}"

    @property
    def record_keys(self) -> tuple[str, str]:
        """Both copies."""
        return self.ended_record_key, self.live_record_key


def job_prefix(kind: ObjectClass, record: JobRecord) -> str:
    """All objects of a class that belong to a job, of every attempt."""
    return f"{kind}/{record.request.tenant}/{record.id}/"


def attempt_prefix(kind: ObjectClass, record: JobRecord, attempt: int) -> str:
    """All objects of a class that one attempt of a job left: a stale process overwrites nobody's."""
    return f"{job_prefix(kind, record)}{attempt}/"


def record_key(record: JobRecord) -> str:
    """The copy of the record, from which a lost ledger is rebuilt.

    An ended job has one of its own: a write of an older copy that the network held back for minutes cannot undo an end.
    """
    return f"{job_prefix(ObjectClass.RECORDS, record)}{_ENDED if record.is_terminal else _LIVE}"


def record_keys(record: JobRecord) -> tuple[str, str]:
    """The copies of a record that there may be: of its end, and of its life."""
    prefix = job_prefix(ObjectClass.RECORDS, record)
    return f"{prefix}{_ENDED}", f"{prefix}{_LIVE}"


def input_key(record_id: str, tenant: str, index: int, suffix: str) -> str:
    """A piece of reference media, stored before the job's record is; `suffix` is ours, such as `png`."""
    return f"{ObjectClass.INPUTS}/{tenant}/{record_id}/{index:02d}.{suffix}"


def inherit_input_key(key: str, record: JobRecord) -> str:
    """The key under which another job's input belongs to this one."""
    return f"{job_prefix(ObjectClass.INPUTS, record)}{key.rpartition('/')[2]}"


def checkpoint_key(record: JobRecord, attempt: int, step: int) -> str:
    """The checkpoint after a step."""
    return f"{attempt_prefix(ObjectClass.CHECKPOINTS, record, attempt)}{step:06d}.safetensors"


def latents_key(record: JobRecord, attempt: int) -> str:
    """What denoise hands to decode."""
    return f"{attempt_prefix(ObjectClass.LATENTS, record, attempt)}latents.safetensors"


def chunk_key(record: JobRecord, attempt: int, index: int) -> str:
    """A pixel chunk, counted from 0 in the order of the frames."""
    return f"{attempt_prefix(ObjectClass.FRAMES, record, attempt)}{index:06d}.rgb"


def audio_key(record: JobRecord, attempt: int) -> str:
    """The decoded sound."""
    return f"{attempt_prefix(ObjectClass.FRAMES, record, attempt)}audio.f32"


def output_key(record: JobRecord, attempt: int) -> str:
    """The finished video."""
    return f"{attempt_prefix(ObjectClass.OUTPUTS, record, attempt)}video.mp4"


def thumbnail_key(record: JobRecord, attempt: int) -> str:
    """A still of the finished video."""
    return f"{attempt_prefix(ObjectClass.OUTPUTS, record, attempt)}thumbnail.jpg"


def spritesheet_key(record: JobRecord, attempt: int) -> str:
    """Frames of the finished video in one picture."""
    return f"{attempt_prefix(ObjectClass.OUTPUTS, record, attempt)}spritesheet.jpg"


def read_place(key: str) -> ObjectPlace | None:
    """The class, job and attempt of an object; None if the key is not one that this module spells."""
    kind, _, rest = key.partition("/")
    tenant, _, rest = rest.partition("/")
    job, _, rest = rest.partition("/")
    if kind not in set(ObjectClass) or not tenant or not rest or not is_job_id(job):
        return None
    attempt = re.match(r"[0-9]+(?=/)", rest)
    return ObjectPlace(ObjectClass(kind), tenant, job, int(attempt.group()) if attempt else None)


def tenant_key(tenant: str) -> str:
    """The copy of a tenant's document; it never expires."""
    return f"{TENANTS_PREFIX}{tenant}.json"


def publish_mark_key(follower: str) -> str:
    """How far a follower of the publish process has come; outside the classes, since it never expires."""
    return f"state/publish/{follower}.json"
