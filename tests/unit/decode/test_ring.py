"""The ring between decoder and uploader: bounded, in order, and no thread waits for ever."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing

import pytest

from unit.denoise.chain import settled, until
from vitascope.decode import ring as ring_module
from vitascope.decode.ring import Piece, Ring, RingClosed


class Maker:
    """Puts pieces of the given sizes into a ring, in a thread."""

    def __init__(self, pool: ThreadPoolExecutor, ring: Ring) -> None:
        self.pool, self.ring, self.done = pool, ring, list[int]()

    def begin(self, *sizes: int) -> "asyncio.Future[None]":
        return asyncio.wrap_future(self.pool.submit(self._put_all, sizes))

    async def has_put(self, count: int) -> list[int]:
        """Waits for so many pieces, gives the maker the chance to put another, and says what was put."""
        await until(lambda: len(self.done) >= count)
        await settled()
        return self.done

    def _put_all(self, sizes: tuple[int, ...]) -> None:
        for size in sizes:
            self.ring.put(Piece(bytes(size), frames=1))
            self.done.append(size)


@pytest.fixture
async def maker() -> AsyncIterator[Maker]:
    with ThreadPoolExecutor(1) as pool:
        maker = Maker(pool, Ring())
        yield maker
        await maker.ring.close()  # a thread that waits would keep the pool


async def test_order_is_kept(maker: Maker) -> None:
    """What goes in comes out, in its order."""
    making = maker.begin(1, 2, 3, 4, 5)
    async with aclosing(maker.ring.drain()) as pieces:
        assert [1, 2, 3, 4, 5] == [len((await anext(pieces)).content) for _ in range(5)]
        await making
        await maker.ring.close()
        assert [] == [piece async for piece in pieces]


async def test_two_slots_at_most(maker: Maker) -> None:
    """The piece that is being stored keeps its slot until the next one is asked for."""
    making = maker.begin(1, 2, 3, 4)
    async with aclosing(maker.ring.drain()) as pieces:
        await anext(pieces)
        assert [1, 2] == await maker.has_put(2)
        await anext(pieces)
        assert [1, 2, 3] == await maker.has_put(3)
        await maker.ring.close()
        with pytest.raises(RingClosed):
            await making


async def test_bytes_are_bounded(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second piece that would pass the limit waits; a single one that is larger still passes."""
    monkeypatch.setattr(ring_module, "MAX_BYTES", 10)
    making = maker.begin(50, 6, 6)
    async with aclosing(maker.ring.drain()) as pieces:
        assert len((await anext(pieces)).content) == 50
        assert [50] == await maker.has_put(1)
        assert len((await anext(pieces)).content) == 6
        assert [50, 6] == await maker.has_put(2)
        assert len((await anext(pieces)).content) == 6
        await making


async def test_closing_frees_a_waiting_thread(maker: Maker) -> None:
    """Nobody takes, the ring closes: the thread learns it instead of waiting for ever."""
    making = maker.begin(1, 2, 3)
    await maker.has_put(2)
    await maker.ring.close()
    with pytest.raises(RingClosed):
        await making
