"""Dead letters: an event that failed past its last try, kept for people with what happened to it. Pure."""

import json
from datetime import datetime

from pydantic import JsonValue

from vitascope.contracts.events import EVENT_MAX_BYTES, TYPE_PREFIX, CloudEvent
from vitascope.contracts.failures import Failure
from vitascope.contracts.flow import Stage

BODY_MAX_BYTES = EVENT_MAX_BYTES // 2
"""Of the dead event's own body so much is kept, so that the letter around it fits into a message."""


def make_dead_letter(
    event: CloudEvent,
    failure: Failure,
    *,
    stage: Stage,
    attempts: int,
    now: datetime,
) -> CloudEvent:
    """The letter: its data are `event`, `error` and `attempts`. Its id follows from the event's: copies are known."""
    dead: dict[str, JsonValue] = event.model_dump(mode="json")
    body = json.dumps(dead["data"])
    if len(body) > BODY_MAX_BYTES:
        dead["data"] = body[: BODY_MAX_BYTES // 2]  # half: quoting it again may double it
    return CloudEvent(
        id=f"{event.id}:dead",
        source=f"/vitascope/stages/{stage}",
        type=f"{TYPE_PREFIX}.dead.{stage}.v1",
        subject=event.subject,
        time=now,
        data={"event": dead, "error": failure.model_dump(mode="json"), "attempts": attempts},
    )
