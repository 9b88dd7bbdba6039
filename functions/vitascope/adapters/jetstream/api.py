"""The calls of JetStream's API that are used here, each one round trip."""

import base64
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from email.parser import BytesParser
from typing import Any

from vitascope.adapters.jetstream.connection import Connection
from vitascope.adapters.jetstream.errors import MESSAGE_NOT_FOUND, ApiError

PREFIX = "$JS.API"
MESSAGE_ID = "Nats-Msg-Id"
EXPECTED_REVISION = "Nats-Expected-Last-Subject-Sequence"
MESSAGE_TTL = "Nats-TTL"
KV_OPERATION = "KV-Operation"
ROLLUP = "Nats-Rollup"
NANOSECONDS = 1_000_000_000
"""JetStream's configurations count time in nanoseconds."""


@dataclass(frozen=True)
class StoredMessage:
    """A message as a stream holds it."""

    sequence: int
    payload: bytes
    headers: Mapping[str, str]


async def call(connection: Connection, subject: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
    """Ask the API; `subject` without its prefix.

    Raises:
        ApiError: it answered with an error.
        VitascopeError: `bus_unavailable`, it did not answer.
    """
    payload = b"" if body is None else json.dumps(body).encode()
    return _parse(subject, (await connection.request(f"{PREFIX}.{subject}", payload)).data)


async def call_pages(
    connection: Connection, subject: str, body: Mapping[str, object] | None = None
) -> AsyncIterator[dict[str, Any]]:
    """Ask for all pages of a list, one after the other; what changes place meanwhile may be missed or come twice.

    Raises:
        ApiError: the API answered with an error.
        VitascopeError: `bus_unavailable`, it did not answer.
    """
    offset, total = 0, 1
    while offset < total:
        page = await call(connection, subject, {**(body or {}), "offset": offset})
        yield page
        offset, total = offset + max(1, int(page["limit"])), int(page["total"])


async def store(connection: Connection, subject: str, payload: bytes, headers: Mapping[str, str]) -> int:
    """Store a message in the stream that listens to its subject, and return its sequence.

    A copy, by `Nats-Msg-Id`, is not stored again: the first one's sequence is returned.

    Raises:
        ApiError: the stream refuses it.
        VitascopeError: `bus_unavailable`, no stream answered.
    """
    answer = await connection.request(subject, payload, dict(headers))
    return int(_parse(subject, answer.data)["seq"])


async def get_last(connection: Connection, stream: str, subject: str) -> StoredMessage | None:
    """The newest message of a subject, from the stream's leader, so that it is never an old one.

    Raises:
        ApiError: the API answered with an error.
        VitascopeError: `bus_unavailable`, it did not answer.
    """
    return await _get(connection, stream, {"last_by_subj": subject})


async def get_next(connection: Connection, stream: str, subject: str, sequence: int) -> StoredMessage | None:
    """The first message of a subject that is kept and has at least that sequence; errors as of `get_last`."""
    return await _get(connection, stream, {"seq": max(sequence, 1), "next_by_subj": subject})


async def _get(connection: Connection, stream: str, wanted: Mapping[str, object]) -> StoredMessage | None:
    try:
        answer = await call(connection, f"STREAM.MSG.GET.{stream}", wanted)
    except ApiError as error:
        if error.err_code == MESSAGE_NOT_FOUND:
            return None
        raise
    message = answer["message"]
    raw_headers = base64.b64decode(message.get("hdrs", ""))
    headers = dict(BytesParser().parsebytes(raw_headers.partition(b"\r\n")[2], headersonly=True).items())
    return StoredMessage(int(message["seq"]), base64.b64decode(message.get("data", "")), headers)


def _parse(subject: str, answer: bytes) -> dict[str, Any]:
    parsed: dict[str, Any] = json.loads(answer)
    if error := parsed.get("error"):
        raise ApiError(subject, int(error.get("err_code", 0)), str(error.get("description", "")))
    return parsed
