"""The registry in two key-value buckets: rows that expire, and leases that expire."""

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import structlog
from nats.aio.msg import Msg
from pydantic import ValidationError

from vitascope.adapters.jetstream.api import EXPECTED_REVISION, KV_OPERATION, MESSAGE_TTL, call, get_last, store
from vitascope.adapters.jetstream.connection import Connection
from vitascope.adapters.jetstream.errors import WRONG_LAST_SEQUENCE, ApiError, make_unreachable
from vitascope.adapters.jetstream.ledger import compare_and_set
from vitascope.adapters.jetstream.watch import Watch
from vitascope.contracts.pools import GroupRow
from vitascope.contracts.subjects import BUCKET_GROUPS, BUCKET_LEASES, group_key
from vitascope.runtime.ports import Conflict

_GROUPS, _GROUP_PREFIX = f"KV_{BUCKET_GROUPS}", f"$KV.{BUCKET_GROUPS}."
_LEASES, _LEASE_PREFIX = f"KV_{BUCKET_LEASES}", f"$KV.{BUCKET_LEASES}."

REPLAY_S = 10.0
"""A watch waits for its server as long as it takes; a question does not."""

log = structlog.get_logger(__name__)


class JetStreamRegistry:
    """See `runtime.ports.Registry`.

    A lease is a message with a time to live, stored by compare-and-set: the server alone decides when it has
    expired, so that no two clocks are ever compared. It counts in whole seconds and looks once a second: a lease
    may outlive its time by two seconds, and never ends before it.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._revisions: dict[tuple[str, str], int] = {}

    async def put_group(self, row: GroupRow) -> None:
        """Renew a group's row."""
        subject = _GROUP_PREFIX + group_key(row.pool, row.group)
        await store(self._connection, subject, row.model_dump_json().encode(), {})

    async def remove_group(self, row: GroupRow) -> None:
        """Take the row away, unless another holder has put one since."""
        subject = _GROUP_PREFIX + group_key(row.pool, row.group)
        held = await get_last(self._connection, _GROUPS, subject)
        if held is None or KV_OPERATION in held.headers or _parse(subject, held.payload, row.holder) is None:
            return
        guards = {KV_OPERATION: "DEL", EXPECTED_REVISION: str(held.sequence)}
        try:
            await store(self._connection, subject, b"", guards)
        except ApiError as error:
            if error.err_code not in WRONG_LAST_SEQUENCE:  # else a new row came in between, and stays
                raise

    async def get_groups(self) -> Sequence[GroupRow]:
        """All rows that are there, in the order of their names."""
        try:
            async with asyncio.timeout(REPLAY_S):
                rows = await self._replay()
        except TimeoutError as error:
            raise make_unreachable("The rows of the groups do not come", f"not within {REPLAY_S:g} s") from error
        return [rows[key] for key in sorted(rows)]

    def watch_groups(self) -> AbstractAsyncContextManager[AsyncIterator[GroupRow | str | None]]:
        """All rows, None, then each change."""
        return self._watch_groups()

    @asynccontextmanager
    async def _watch_groups(self) -> AsyncIterator[AsyncIterator[GroupRow | str | None]]:
        async with Watch(self._connection, _GROUPS, f"{_GROUP_PREFIX}>") as watch:
            yield _rows(watch)

    async def acquire_lease(self, name: str, holder: str, ttl_s: float) -> bool:
        """Take or renew a lease; renewing is one round trip."""
        subject = _LEASE_PREFIX + name
        ttl = {MESSAGE_TTL: f"{max(1, math.ceil(ttl_s))}s"}  # the server knows whole seconds, at least one
        known = self._revisions.get((name, holder), 0)
        for revision in (known, 0) if known else (0,):
            try:
                taken = await compare_and_set(
                    self._connection, subject, holder.encode(), revision=revision, headers=ttl
                )
            except Conflict:
                continue
            self._revisions[name, holder] = taken
            return True
        self._revisions.pop((name, holder), None)
        return await self._readopt(subject, name, holder, ttl)

    async def release_lease(self, name: str, holder: str) -> None:
        """Give a lease back, if this holder has it: exactly the message that it last stored is deleted."""
        self._revisions.pop((name, holder), None)
        held = await get_last(self._connection, _LEASES, _LEASE_PREFIX + name)
        if held is None or held.payload != holder.encode():
            return
        try:
            await call(self._connection, f"STREAM.MSG.DELETE.{_LEASES}", {"seq": held.sequence, "no_erase": True})
        except ApiError:  # it has expired, or is somebody else's by now
            return

    async def _replay(self) -> dict[str, GroupRow]:
        rows: dict[str, GroupRow] = {}
        async with self.watch_groups() as news:
            async for row in news:
                if row is None:
                    break
                if isinstance(row, str):
                    rows.pop(row, None)
                else:
                    rows[group_key(row.pool, row.group)] = row
        return rows

    async def _readopt(self, subject: str, name: str, holder: str, ttl: dict[str, str]) -> bool:
        """Renew a lease that this holder had taken through another registry, before a restart perhaps."""
        held = await get_last(self._connection, _LEASES, subject)
        if held is None or held.payload != holder.encode():
            return False
        try:
            self._revisions[name, holder] = await compare_and_set(
                self._connection, subject, holder.encode(), revision=held.sequence, headers=ttl
            )
        except Conflict:
            return False
        return True


async def _rows(watch: Watch) -> AsyncIterator[GroupRow | str | None]:
    async for message in watch:
        if message is None:
            yield None
        elif (row := _read(message)) is not None:
            yield row


def _read(message: Msg) -> GroupRow | str | None:
    if KV_OPERATION in (message.headers or {}):
        return str(message.subject).removeprefix(_GROUP_PREFIX)
    return _parse(message.subject, message.data)


def _parse(subject: str, stored: bytes, holder: str | None = None) -> GroupRow | None:
    """The row, or None if it cannot be read or has another holder than the one asked for."""
    try:
        row = GroupRow.model_validate_json(stored)
    except ValidationError:
        log.exception("registry.unreadable_row", subject=subject)
        return None
    return row if holder in {None, row.holder} else None
