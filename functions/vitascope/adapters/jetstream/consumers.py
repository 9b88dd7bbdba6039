"""The durable consumers: of work one for each stage and pool, and for denoise each group; of public events one."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import structlog

from vitascope.adapters.jetstream.api import NANOSECONDS, call, call_pages
from vitascope.adapters.jetstream.connection import Connection
from vitascope.adapters.jetstream.errors import CONSUMER_EXISTS, CONSUMER_NOT_FOUND, ApiError
from vitascope.adapters.limits import ACK_WAIT_S
from vitascope.contracts.flow import Stage
from vitascope.contracts.subjects import (
    EVENTS_ALL,
    STREAM_WORK,
    WEBHOOK_CONSUMER,
    WORK_DENOISE,
    work_consumer,
    work_filter,
)

GROUP_IDLE_S = 86_400
"""A group's consumer that nobody pulled from for a day goes; its messages stay. A pool's consumer stays for ever, since
autoscalers read a missing one as an endless queue."""
MAX_ACK_PENDING = 1000
"""Far above the processes of a pool: reaching it would stall the pool without a word."""
MAX_WAITING = 512
"""Pull requests that wait at once, about one for each process of the pool."""


log = structlog.get_logger(__name__)


def plan_consumer(stage: Stage, pool: str, group: str | None) -> dict[str, Any]:
    """The configuration of a consumer, as JetStream's API takes it.

    `max_deliver` is unlimited, since the record counts failures, and there is no `backoff`: the server adds it to the
    delay of a negative acknowledgement in a way that doubles the wait.
    """
    config = _plan_durable(work_consumer(stage, pool, group), work_filter(stage, pool, group))
    return config if group is None else {**config, "inactive_threshold": GROUP_IDLE_S * NANOSECONDS}


def plan_webhook_consumer() -> dict[str, Any]:
    """The configuration of the one that reads all public events, the oldest first, for those who deliver them."""
    return _plan_durable(WEBHOOK_CONSUMER, EVENTS_ALL)


def _plan_durable(name: str, subjects: str) -> dict[str, Any]:
    return {
        "name": name,
        "durable_name": name,
        "filter_subject": subjects,
        "deliver_policy": "all",
        "ack_policy": "explicit",
        "ack_wait": int(ACK_WAIT_S * NANOSECONDS),
        "max_deliver": -1,
        "max_ack_pending": MAX_ACK_PENDING,
        "max_waiting": MAX_WAITING,
        "replay_policy": "instant",
    }


async def ensure_consumer(connection: Connection, stream: str, wanted: dict[str, Any]) -> None:
    """Make the consumer if there is none, and correct it if an older release made it.

    It is read first and then made or changed with its whole configuration: creating is also changing in JetStream's
    API, and a field that is left out falls back to its default.

    Raises:
        VitascopeError: `bus_unavailable`.
    """
    name = wanted["name"]
    try:
        present: dict[str, Any] = (await call(connection, f"CONSUMER.INFO.{stream}.{name}"))["config"]
    except ApiError as error:
        if error.err_code != CONSUMER_NOT_FOUND:
            raise
        try:
            await _write(connection, stream, wanted, "create")
        except ApiError as refused:
            if refused.err_code != CONSUMER_EXISTS:  # else somebody was faster, and made the same
                raise
        else:
            log.info("bus.consumer_created", consumer=name)
        return
    if {**present, **wanted} != present:
        await _write(connection, stream, {**present, **wanted}, "update")
        log.info("bus.consumer_updated", consumer=name)


async def drop_idle_consumers(connection: Connection, groups: Collection[tuple[str, str]]) -> Sequence[str]:
    """Delete the consumers of denoise groups that are not among `groups` (pool, group), have no work and no process.

    A group that comes back in between makes its consumer anew; messages are never deleted with a consumer.

    Raises:
        VitascopeError: `bus_unavailable`.
    """
    kept = {work_filter(Stage.DENOISE, pool, group) for pool, group in groups}
    idle = [
        str(consumer["name"])
        async for page in call_pages(connection, f"CONSUMER.LIST.{STREAM_WORK}")
        for consumer in page["consumers"] or ()
        if _is_denoise(consumer) and consumer["config"]["filter_subject"] not in kept and _is_idle(consumer)
    ]
    return sorted([name for name in idle if await _delete(connection, name)])


def _is_denoise(consumer: Mapping[str, Any]) -> bool:
    return str(consumer["config"].get("filter_subject", "")).startswith(WORK_DENOISE)


def _is_idle(consumer: Mapping[str, Any]) -> bool:
    """Nothing waits for it, nothing is worked on, and nobody waits for something."""
    return not (consumer["num_pending"] or consumer["num_ack_pending"] or consumer["num_waiting"])


async def _delete(connection: Connection, name: str) -> bool:
    try:
        await call(connection, f"CONSUMER.DELETE.{STREAM_WORK}.{name}")
    except ApiError as error:
        if error.err_code != CONSUMER_NOT_FOUND:
            raise
        return False
    log.info("bus.consumer_dropped", consumer=name)
    return True


async def _write(connection: Connection, stream: str, config: dict[str, Any], action: str) -> None:
    subject = f"CONSUMER.CREATE.{stream}.{config['name']}.{config['filter_subject']}"
    await call(connection, subject, {"stream_name": stream, "config": config, "action": action})
