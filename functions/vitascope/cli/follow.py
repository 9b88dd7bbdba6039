"""Follow a job to its end, through restarts of the service."""

import json
import time
from collections.abc import Callable

from vitascope.cli.answers import Json
from vitascope.cli.client import Client
from vitascope.cli.exits import CommandError, Exit

RECONNECT_S = 1.0
GIVE_UP_S = 120.0
"""A service that does not come back within two minutes is reported as unreachable; the job goes on without us."""
OF_A_STAGE = ("step", "steps", "step_s", "remaining_s")
ENDED = frozenset({"succeeded", "failed", "cancelled", "refused", "withheld", "expired"})


def follow_job(client: Client, job: Json, on_change: Callable[[Json], None]) -> Json:
    """Call `on_change` with each newer state of the job until it has ended, and return the last.

    Raises:
        CommandError: the service stays away or unavailable for longer than `GIVE_UP_S`, or does not know the job.
    """
    on_change(job)
    lost_since: float | None = None
    while job["status"] not in ENDED:
        try:
            for _, _, data in client.follow(job["id"]):
                lost_since = None
                job = merge(job, read_event(data))
                on_change(job)
                if job["status"] in ENDED:
                    break
            job = client.get(job["id"])
        except CommandError as error:
            now = time.monotonic()
            lost_since = lost_since or now
            if error.code not in {Exit.UNREACHABLE, Exit.NOT_READY} or now - lost_since > GIVE_UP_S:
                raise
            time.sleep(RECONNECT_S)
    job = client.get(job["id"])
    on_change(job)
    return job


def read_event(data: str) -> Json:
    """What an event says of the job.

    Raises:
        CommandError: `REJECTED`, it is no JSON object.
    """
    try:
        news = json.loads(data)
    except ValueError:
        news = None
    if not isinstance(news, dict):
        raise CommandError(Exit.REJECTED, "the service sent an event that is not of the vitascope API", why=data[:100])
    return news


def merge(job: Json, news: Json) -> Json:
    """The job with what an event says; another stage counts other units, so those of the last one go."""
    is_other = "stage" in news and news["stage"] != job.get("stage")
    return {**job, **(dict.fromkeys(OF_A_STAGE) if is_other else {}), **news}


def raise_unless_succeeded(job: Json) -> None:
    """Turn an end other than success into the command's error."""
    status, error = job["status"], job.get("error") or {}
    if status == "succeeded":
        return
    code = Exit.CANCELLED if status == "cancelled" else Exit.FAILED
    why = f"stage {error['stage']}" if error.get("stage") else ""
    what = f"job {job['id']} {status}: {error.get('message') or 'no reason given'}"
    raise CommandError(code, what, why=why, word=error.get("code") or "")
