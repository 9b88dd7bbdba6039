"""The form in which an event travels: CloudEvents headers and a JSON body of bounded size."""

import json
from collections.abc import Mapping

from vitascope.contracts.events import EVENT_MAX_BYTES, CloudEvent, from_headers, to_headers


def pack(event: CloudEvent) -> tuple[dict[str, str], bytes]:
    """Headers and body of an event.

    Raises:
        ValueError: the body is larger than `EVENT_MAX_BYTES`, or holds a number that JSON has not.
    """
    body = json.dumps(event.data, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()
    if len(body) > EVENT_MAX_BYTES:
        raise ValueError(f"event {event.id} has {len(body)} bytes; the limit is {EVENT_MAX_BYTES}")
    return to_headers(event), body


def unpack(headers: Mapping[str, str] | None, body: bytes) -> CloudEvent:
    """The event that `pack` packed.

    Raises:
        ValueError: it is no CloudEvent in binary mode with a JSON body.
    """
    try:
        return from_headers(headers or {}, json.loads(body))
    except RecursionError as error:
        raise ValueError("the body is nested too deeply") from error
