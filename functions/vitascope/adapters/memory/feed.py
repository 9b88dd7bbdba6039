"""Newest values by key, with watchers that see every key and may miss what was overtaken."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Feed(Generic[T]):
    """What a key holds now, and a feed of the changes.

    A watcher keeps at most one value a key, so a slow one costs no more memory than the keys it watches.
    """

    def __init__(self) -> None:
        self.values: dict[str, T] = {}
        self._watchers: set[Watcher[T]] = set()

    def put(self, key: str, value: T) -> None:
        """Set the value of a key and tell the watchers."""
        self.values[key] = value
        self.tell(key, value)

    def forget(self, key: str) -> None:
        """Take a key out without telling anybody: whoever replays from now on does not see it."""
        self.values.pop(key, None)

    def tell(self, key: str, value: T) -> None:
        """Tell the watchers something about a key without storing it."""
        for watcher in self._watchers:
            watcher.offer(key, value)

    def watch(self, is_wanted: Callable[[str, T], bool]) -> "Watcher[T]":
        """A watcher of the keys and values that are wanted."""
        return Watcher(self, self._watchers, is_wanted)


class Watcher(Generic[T]):
    """First the newest of each key, then None once, then what changes. Ends when its context is left."""

    def __init__(
        self,
        feed: Feed[T],
        watchers: "set[Watcher[T]]",
        is_wanted: Callable[[str, T], bool],
    ) -> None:
        self._feed, self._watchers, self._is_wanted = feed, watchers, is_wanted
        self._first: dict[str, T] = {}
        self._later: dict[str, T] = {}
        self._is_told = False
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        self._first = {key: value for key, value in self._feed.values.items() if self._is_wanted(key, value)}
        self._watchers.add(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watchers.discard(self)
        self._news.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T | None:
        while True:
            if self not in self._watchers:
                raise StopAsyncIteration
            if self._first:
                return self._first.pop(next(iter(self._first)))
            if not self._is_told:
                self._is_told = True
                return None
            if self._later:
                return self._later.pop(next(iter(self._later)))
            self._news.clear()
            await self._news.wait()

    def offer(self, key: str, value: T) -> None:
        """Take a change in: it replaces an older one of its key that nobody has seen yet."""
        if not self._is_wanted(key, value):
            return
        waiting = self._first if key in self._first else self._later
        waiting.pop(key, None)  # a newer value stands behind all that were set before it
        waiting[key] = value
        self._news.set()
