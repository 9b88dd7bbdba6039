"""Server-sent events: their form, their ids, and the bounds of a stream."""

import asyncio
import json
from collections.abc import Mapping

from vitascope.contracts.events import Progress
from vitascope.contracts.flow import STAGE_OF
from vitascope.runtime.change_log import Change

KEEP_ALIVE_S = 15.0
"""Proxies cut connections that are silent for a minute, some for thirty seconds."""
MAX_STREAM_S = 6 * 3600.0
"""A stream that is open longer is closed; the client comes back with the last id it has."""
MAX_STREAMS = 4_000
"""Open streams of one replica."""
RETRY_MS = 2_000
"""How long a client waits before it comes back."""
RETRY = f"retry: {RETRY_MS}\n\n".encode()
KEEP_ALIVE = b": keep-alive\n\n"
STREAM_HEADERS: Mapping[str, str] = {"x-accel-buffering": "no"}
UNKNOWN = -1
"""The revision of an id that is none of ours: no ledger has it."""
_MAX_REVISION_DIGITS = 19


def parse_revision(text: str | None) -> int | None:
    """The revision in a `Last-Event-ID`; None without one, `UNKNOWN` for whatever is none of ours."""
    if not text:
        return None
    is_ours = text.isascii() and text.isdigit() and len(text) <= _MAX_REVISION_DIGITS
    return int(text) if is_ours else UNKNOWN


def format_status(change: Change) -> bytes:
    """The event of a job's new state; its id is the ledger's revision."""
    failure = change.failure
    view = {
        "id": change.job,
        "status": change.state,
        "attempt": change.attempt,
        "stage": STAGE_OF.get(change.state),
        "reason": change.reason,
        "error": failure.model_dump(mode="json", include={"code", "message", "stage"}) if failure else None,
    }
    return _format("status", view, change.revision)


def format_progress(progress: Progress) -> bytes:
    """The event of a stage's progress; it has no id."""
    view = progress.model_dump(mode="json", include={"attempt", "stage", "step", "steps", "step_s", "remaining_s"})
    return _format("progress", {"id": progress.job, **view})


def format_resync(reason: str, job: str | None = None, revision: int | None = None) -> bytes:
    """The event that says that something may have been missed: whoever keeps a state of jobs reads it anew."""
    return _format("resync", {"id": job, "reason": reason}, revision)


async def wait_for_news(news: asyncio.Event, timeout_s: float) -> bool:
    """Whether news came in time; they are taken as read."""
    try:
        async with asyncio.timeout(timeout_s):
            await news.wait()
    except TimeoutError:
        return False
    news.clear()
    return True


def _format(name: str, view: Mapping[str, object], revision: int | None = None) -> bytes:
    event_id = "" if revision is None else f"id: {revision}\n"
    return f"event: {name}\n{event_id}data: {json.dumps(view)}\n\n".encode()  # JSON in ASCII has no line breaks
