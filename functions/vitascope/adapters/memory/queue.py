"""The work queue in memory: waiting, delivered, delivered again, gone."""

import asyncio
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from vitascope.adapters.limits import DEDUPE_WINDOW_S
from vitascope.adapters.memory.state import BrokerState

Packed = tuple[dict[str, str], bytes]


@dataclass
class Waiting:
    """A message in the queue: `due_s` is when it may be delivered, again or for the first time."""

    sequence: int
    subject: str
    packed: Packed
    due_s: float
    deliveries: int = 0


@dataclass
class Durable:
    """A consumer that stays when its last user leaves."""

    pattern: str
    users: int = 0


@dataclass
class WorkQueue:
    """Messages until somebody ends them. An acknowledgement is no fence: an old delivery's ends the message too."""

    state: BrokerState
    _messages: dict[int, Waiting] = field(default_factory=dict)
    _ids: dict[str, float] = field(default_factory=dict)
    _consumers: set[asyncio.Event] = field(default_factory=set)
    durable: dict[str, "Durable"] = field(default_factory=dict)
    _sequence: int = 0

    def publish(self, subject: str, message_id: str, packed: Packed) -> None:
        """Put a message in, unless its id was seen inside the window."""
        now_s = self.state.timing.now_s()
        for old in [key for key, seen_s in self._ids.items() if seen_s <= now_s - DEDUPE_WINDOW_S]:
            del self._ids[old]
        if message_id in self._ids:
            return
        self._ids[message_id] = now_s
        self._sequence += 1
        self._messages[self._sequence] = Waiting(self._sequence, subject, packed, due_s=now_s)
        self.wake()

    def has(self, subject: str) -> bool:
        """Whether a message of that subject is in the queue."""
        return any(message.subject == subject for message in self._messages.values())

    def subjects(self) -> list[str]:
        """The subjects of all messages in the queue, each once, sorted."""
        return sorted({message.subject for message in self._messages.values()})

    def lose(self) -> None:
        """Lose all messages, what is remembered of old ones, and the consumers that nobody uses now."""
        self._messages.clear()
        self._ids.clear()
        self.durable = {name: consumer for name, consumer in self.durable.items() if consumer.users}

    def drop(self, subject: str) -> None:
        """Take all messages of that subject out for good."""
        self._messages = {key: message for key, message in self._messages.items() if message.subject != subject}

    async def take(self, pattern: str, news: asyncio.Event) -> Waiting | None:
        """The oldest message that is due, or None after something changed or a time came."""
        now_s = self.state.timing.now_s()
        within_reach = self._messages.values() if self.state.connected else ()
        mine = [message for message in within_reach if fnmatchcase(message.subject, pattern)]
        for message in mine:
            if message.due_s <= now_s:
                message.deliveries += 1
                message.due_s = now_s + self.state.ack_wait_s
                return message
        news.clear()
        self._consumers.add(news)
        try:
            await self.state.timing.wait(news, min((message.due_s for message in mine), default=None))
        finally:
            self._consumers.discard(news)
        return None

    def end(self, sequence: int) -> None:
        """Take a message out for good."""
        self._messages.pop(sequence, None)

    def postpone(self, sequence: int, delay_s: float) -> None:
        """Deliver a message again after a while."""
        if message := self._messages.get(sequence):
            message.due_s = self.state.timing.now_s() + delay_s
            self.wake()

    def wake(self) -> None:
        """Let everybody who waits for a message look again."""
        for news in self._consumers:
            news.set()
