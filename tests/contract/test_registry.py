"""What every registry promises."""

import asyncio
from collections.abc import AsyncIterator

from contract.real import Ports
from contract.waiting import until
from records import NOW
from vitascope.contracts.pools import GroupRow, GroupState
from vitascope.contracts.subjects import group_key

News = AsyncIterator[GroupRow | str | None]


def group_row(pool: str, group: str = "g0", **changes: object) -> GroupRow:
    row = GroupRow(pool=pool, group=group, models=("tiny-wan",), state=GroupState.IDLE, holder="host:1", seen=NOW)
    return row.model_copy(update=changes)


async def rows_of(ports: Ports, pool: str) -> list[GroupRow]:
    return [row for row in await ports.registry.get_groups() if row.pool == pool]


async def test_rows_come_in_the_order_of_their_names(ports: Ports, unique: str) -> None:
    """All rows of a pool, newest state each."""
    rows = [group_row(unique, group) for group in ("g2", "g0", "g1")]
    for row in rows:
        await ports.registry.put_group(row)
    busy = group_row(unique, "g0", state=GroupState.BUSY, step_s={"64x64_17": 0.25})
    await ports.registry.put_group(busy)
    assert [busy, rows[2], rows[0]] == await rows_of(ports, unique)


async def test_removed_row_is_gone(ports: Ports, unique: str) -> None:
    """A group that says goodbye is not there any more; doing it twice does no harm."""
    row = group_row(unique)
    await ports.registry.put_group(row)
    await ports.registry.remove_group(row)
    await ports.registry.remove_group(row)
    assert [] == await rows_of(ports, unique)


async def test_old_holder_cannot_remove_the_new_ones_row(ports: Ports, unique: str) -> None:
    """A process that ends late leaves the row of the one that replaced it."""
    old, new = group_row(unique), group_row(unique, holder="host:2")
    await ports.registry.put_group(old)
    await ports.registry.put_group(new)
    await ports.registry.remove_group(old)
    assert [new] == await rows_of(ports, unique)


async def test_removed_row_can_come_back(ports: Ports, unique: str) -> None:
    """A group that starts again is there again."""
    row = group_row(unique)
    await ports.registry.put_group(row)
    await ports.registry.remove_group(row)
    await ports.registry.put_group(row)
    assert [row] == await rows_of(ports, unique)


async def test_watch_gives_rows_then_none_then_changes(ports: Ports, unique: str) -> None:
    """A watcher hears of rows that were there, of new ones, and of those taken away."""
    row = group_row(unique)
    await ports.registry.put_group(row)
    async with ports.registry.watch_groups() as news, asyncio.timeout(5):
        first = [seen async for seen in _until_none(news)]
        assert row in first
        changed = group_row(unique, state=GroupState.DRAINING)
        await ports.registry.put_group(changed)
        await ports.registry.remove_group(changed)
        later = [await _next_of(news, unique)]
        if later[-1] != group_key(unique, "g0"):  # a row that was overtaken may be skipped
            later.append(await _next_of(news, unique))
    assert group_key(unique, "g0") == later[-1]
    assert later[:-1] in ([], [changed])


async def test_lease_has_one_holder(ports: Ports, unique: str) -> None:
    """The first gets it and may renew it; the second does not get it."""
    assert await ports.registry.acquire_lease(unique, "a", 30)
    assert not await ports.registry.acquire_lease(unique, "b", 30)
    assert await ports.registry.acquire_lease(unique, "a", 30)
    assert not await ports.registry.acquire_lease(unique, "b", 30)


async def test_released_lease_is_free_at_once(ports: Ports, unique: str) -> None:
    """A holder that stops in order makes room without a wait."""
    assert await ports.registry.acquire_lease(unique, "a", 30)
    await ports.registry.release_lease(unique, "a")
    assert await ports.registry.acquire_lease(unique, "b", 30)


async def test_release_by_another_changes_nothing(ports: Ports, unique: str) -> None:
    """Only the holder can give it back."""
    assert await ports.registry.acquire_lease(unique, "a", 30)
    await ports.registry.release_lease(unique, "b")
    assert not await ports.registry.acquire_lease(unique, "b", 30)


async def test_lease_that_is_not_renewed_ends(ports: Ports, unique: str) -> None:
    """Another gets it once it has expired, and the old holder finds that out when it renews."""
    assert await ports.registry.acquire_lease(unique, "a", 1)
    await until(lambda: ports.registry.acquire_lease(unique, "b", 30))
    assert not await ports.registry.acquire_lease(unique, "a", 30)


async def test_many_contenders_have_one_winner(ports: Ports, unique: str) -> None:
    """Ten at once: one gets it."""
    tries = [ports.registry.acquire_lease(unique, f"h{number}", 30) for number in range(10)]
    assert 1 == sum(await asyncio.gather(*tries))


async def _until_none(news: News) -> AsyncIterator[GroupRow | str]:
    async for row in news:
        if row is None:
            return
        yield row


async def _next_of(news: News, pool: str) -> GroupRow | str:
    async for row in news:
        if isinstance(row, GroupRow) and row.pool == pool:
            return row
        if isinstance(row, str) and row.startswith(pool):
            return row
    raise AssertionError("the watch ended")
