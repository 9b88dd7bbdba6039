"""The streams and buckets: made and brought up to date by one call that may run any number of times.

Everything is bounded. Nothing is ever made smaller, emptied or deleted: a bound that somebody raised stays raised,
and a difference that only a new stream could cure is an error that says so.

A stream's sequences begin at the time of its making, in milliseconds since 1970. So they rise even over the loss of
the server's files, as long as a stream had no more than a thousand messages a second on average: a revision that
somebody kept never fits a later record, and a late acknowledgement never ends the work of a later event.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from vitascope.adapters.jetstream.api import NANOSECONDS, call
from vitascope.adapters.jetstream.connection import Connection
from vitascope.adapters.jetstream.errors import STREAM_NAME_IN_USE, STREAM_NOT_FOUND, ApiError
from vitascope.adapters.limits import DEDUPE_WINDOW_S, REMEMBER_S
from vitascope.contracts import subjects
from vitascope.contracts.jobs import RECORD_MAX_BYTES
from vitascope.contracts.pools import LEASE_S

MIB, DAY_S = 1024 * 1024, 86_400
HISTORY = 64
"""Revisions that the ledger keeps of a record: NATS' own limit of a bucket."""
MESSAGE_MAX_BYTES = 128 * 1024
"""Of a work or public event, headers included: `EVENT_MAX_BYTES` of data, and as much again for the attributes."""
WINDOW_S = 120
"""How long a bucket knows that a write was sent again after a lost connection; requests last only 10 s."""
ENSURE_TRIES = 3
"""Another process may do the same at the same time: then look again."""

_GROWING = ("max_msgs", "max_bytes", "max_age", "max_msgs_per_subject", "max_msg_size", "duplicate_window")
"""Bounds, of which the larger one is kept; 0 and -1 mean none."""

log = structlog.get_logger(__name__)


async def ensure(connection: Connection, replicas: int = 1) -> Sequence[str]:
    """Make all streams and buckets, or bring them up to date.

    Durable consumers of work are not made here: groups come and go, so `JetStreamBus.consume` makes its own. Its
    name has one kind of writer, and it is read before it is made.

    Args:
        connection: to a server with JetStream.
        replicas: of every stream and bucket; a cluster of that many servers is needed.

    Returns:
        The names of the streams that were made now, a bucket's as `KV_<bucket>`. Whoever dies between this and what
        he does about a new ledger is not told again: `Ledger.get_birth` says it at any time.

    Raises:
        VitascopeError: `bus_unavailable`, with what to do.
    """
    return [config["name"] for config in plan(replicas) if await _ensure_stream(connection, config)]


def plan(replicas: int) -> list[dict[str, Any]]:
    """The configuration of every stream and bucket, as JetStream's API takes it."""
    streams = [
        _stream(
            subjects.STREAM_WORK,
            subjects.WORK_ALL,
            retention="workqueue",
            discard="new",  # a full queue refuses; it must not forget
            max_msgs=100_000,
            max_bytes=256 * MIB,
            duplicate_window=_ns(DEDUPE_WINDOW_S),
        ),
        _stream(
            subjects.STREAM_EVENTS,
            subjects.EVENTS_ALL,
            max_bytes=1024 * MIB,
            max_age=_ns(7 * DAY_S),
            duplicate_window=_ns(DEDUPE_WINDOW_S),
        ),
        # A file, though nothing in it matters for long: a single server forgets streams in memory when it restarts, not
        # only what was in them.
        _stream(
            subjects.STREAM_PROGRESS,
            subjects.PROGRESS_ALL,
            max_msgs_per_subject=1,
            max_bytes=64 * MIB,
            max_age=_ns(3600),
        ),
        _stream(subjects.STREAM_DEAD, subjects.DEAD_ALL, max_bytes=256 * MIB, max_age=_ns(14 * DAY_S)),
    ]
    buckets = [
        _bucket(
            subjects.BUCKET_JOBS,
            max_msgs_per_subject=HISTORY,
            max_bytes=4096 * MIB,
            max_msg_size=2 * RECORD_MAX_BYTES,
            allow_msg_ttl=True,  # what is left of a forgotten record goes by itself
        ),
        _bucket(subjects.BUCKET_IDEMPOTENCY, max_bytes=256 * MIB, max_age=_ns(REMEMBER_S)),
        _bucket(subjects.BUCKET_GROUPS, max_bytes=64 * MIB, max_age=_ns(LEASE_S), duplicate_window=_ns(LEASE_S)),
        _bucket(subjects.BUCKET_TENANTS, max_bytes=256 * MIB),
        _bucket(subjects.BUCKET_DELIVERIES, max_bytes=1024 * MIB, allow_msg_ttl=True),  # the log goes row by row
        # A lease given back is one message deleted by its sequence, so deleting stays allowed here.
        _bucket(subjects.BUCKET_LEASES, max_bytes=MIB, allow_msg_ttl=True, deny_delete=False),
    ]
    return [{**config, "num_replicas": replicas} for config in (*streams, *buckets)]


def _stream(name: str, subject: str, **bounds: object) -> dict[str, Any]:
    return {
        "name": name,
        "subjects": [subject],
        "retention": "limits",
        "storage": "file",
        "discard": "old",
        "max_msg_size": MESSAGE_MAX_BYTES,
        "duplicate_window": _ns(WINDOW_S),
        **bounds,
    }


def _bucket(name: str, **bounds: object) -> dict[str, Any]:
    """A key-value bucket (NATS ADR-8), so that `nats kv` shows it."""
    return _stream(
        f"KV_{name}",
        f"$KV.{name}.>",
        **{
            "discard": "new",
            "max_msgs_per_subject": 1,
            "allow_rollup_hdrs": True,
            "deny_delete": True,
            **bounds,
        },
    )


def _ns(seconds: float) -> int:
    return int(seconds * NANOSECONDS)


async def _ensure_stream(connection: Connection, wanted: Mapping[str, Any]) -> bool:
    """Whether it was made now."""
    name = wanted["name"]
    for _ in range(ENSURE_TRIES):
        try:
            present: dict[str, Any] = (await call(connection, f"STREAM.INFO.{name}"))["config"]
        except ApiError as error:
            if error.err_code != STREAM_NOT_FOUND:
                raise
            try:
                await call(connection, f"STREAM.CREATE.{name}", {**wanted, "first_seq": time.time_ns() // 1_000_000})
            except ApiError as refused:
                if refused.err_code == STREAM_NAME_IN_USE:
                    await asyncio.sleep(0)
                    continue
                raise
            log.info("bus.stream_created", stream=name)
            return True
        merged = merge(present, wanted)
        if merged != present:
            await call(connection, f"STREAM.UPDATE.{name}", merged)
            log.info("bus.stream_updated", stream=name)
        return False
    raise AssertionError(f"stream {name} neither exists nor can be made")  # only a server that contradicts itself


def merge(present: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The present configuration with what is wanted in it, and of each bound the larger one."""
    merged = {**present, **wanted}
    for bound in _GROWING:
        if bound in present and bound in wanted:
            merged[bound] = _larger(present[bound], wanted[bound])
    return merged


def _larger(one: int, other: int) -> int:
    return max(one, other) if one > 0 and other > 0 else min(one, other)
