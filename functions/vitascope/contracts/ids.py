"""Names: job ids, and the tokens that may stand in a subject, a key or an object path."""

import re
from datetime import datetime
from typing import Annotated

from pydantic import StringConstraints
from ulid import ULID

JOB_PREFIX = "vj_"
JOB_PATTERN = r"^vj_[0-9A-HJKMNP-TV-Z]{26}$"
TOKEN_PATTERN = r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$"  # noqa: S105 (a name part, no password)

JobId = Annotated[str, StringConstraints(pattern=JOB_PATTERN)]
Token = Annotated[str, StringConstraints(pattern=TOKEN_PATTERN)]
"""Tenant, pool or group: one NATS subject token, one S3 path segment and one Kubernetes label value at once."""


def make_job_id(now: datetime) -> str:
    """A new job id: `vj_` and a ULID, so that ids sort by the millisecond in which they were made."""
    return f"{JOB_PREFIX}{ULID.from_datetime(now)}"


def read_job_time(job: str) -> datetime:
    """The moment that a job's id was made of, UTC.

    Raises:
        ValueError: it was not made by `make_job_id`.
    """
    made: datetime = ULID.from_str(job.removeprefix(JOB_PREFIX)).datetime
    return made


def is_job_id(text: str) -> bool:
    """Whether the text could be a job id; anything else must not reach a key or a subject."""
    return re.fullmatch(JOB_PATTERN, text) is not None and not text.endswith("\n")  # `$` also matches before a newline


def is_token(text: str) -> bool:
    """Whether the text could name a tenant, pool or group; anything else must not reach a key or a subject."""
    return re.fullmatch(TOKEN_PATTERN, text) is not None and not text.endswith("\n")  # as in `is_job_id`
