"""The stage loop: takes a stage's events from the bus, keeps each alive while it is worked on, and settles it."""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import structlog
from pydantic import ValidationError

from vitascope.contracts.events import WorkItem
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.runtime.fitness import Fitness
from vitascope.runtime.outcome import MAX_TAKES, OUTAGES, Verdict, compute_delay_s
from vitascope.runtime.ports import Bus, Clock, Delivery, Ledger
from vitascope.runtime.settle import Settler
from vitascope.runtime.stage import StageHandler
from vitascope.runtime.stage_run import StageRun

REBIND_S = 2.0
"""Pause before work is asked for again after the bus refused."""
CANCEL_S = 5.0
"""So long a cancelled run, and the end of taking, may take to come to an end."""

log = structlog.get_logger(__name__)


@dataclass
class InHand:
    """A piece of work that is being tried; `has_failed` counts once it has ended."""

    ended: asyncio.Event = field(default_factory=asyncio.Event)
    has_failed: bool = False


class StageLoop:
    """Runs a handler on the events of one stage of one pool (denoise: of one group), `limit` at a time.

    Attributes:
        stage: the stage.
        pool: the pool whose work it takes.
        group: the group, for denoise.
        stalled: set once a run hangs or a self-test fails. Its outcome has been recorded, if that was possible; the
            process should end, because what hangs cannot be taken back.
    """

    def __init__(
        self,
        handler: StageHandler,
        bus: Bus,
        ledger: Ledger,
        *,
        clock: Clock,
        pool: str,
        group: str | None = None,
        limit: int = 1,
    ) -> None:
        self.stage: Stage = handler.stage
        self.pool, self.group = pool, group
        self._handler, self._bus, self._limit = handler, bus, limit
        self._settler, self._fitness = Settler(bus, ledger, clock, handler.stage), Fitness(handler)
        self.stalled = self._fitness.stalled
        self._draining, self._has_late = asyncio.Event(), False
        self._taking: asyncio.Task[None] | None = None
        self._runs: set[asyncio.Task[Any]] = set()
        self._in_hand: dict[str, InHand] = {}

    @property
    def is_draining(self) -> bool:
        """Whether it has stopped taking work."""
        return self._draining.is_set()

    @property
    def has_abandoned(self) -> bool:
        """Whether a run was given up. A thread of its may still be at work, though its coroutine has ended."""
        return self._has_late or self.stalled.is_set()

    async def run(self) -> None:
        """Take and run work until `drain`, or until it is cancelled, which hands everything back."""
        if self._draining.is_set():
            return
        async with asyncio.TaskGroup() as tasks:
            self._taking = tasks.create_task(self._take(tasks), name=f"{self.stage} taking")

    async def drain(self, grace_s: float) -> None:
        """Stop taking work, tell the handler, wait for what runs; past the grace it is cancelled and handed back.

        A second call waits with the first.
        """
        if not self._draining.is_set():
            self._draining.set()
            log.info("draining", stage=self.stage, running=len(self._runs))
            if self._taking is not None:
                self._taking.cancel()
            await self._handler.drain()
            self._fitness.release()
        await _wait({self._taking} if self._taking else set(), CANCEL_S)
        late = await _wait(self._runs, grace_s)
        for run in late:
            self._has_late = True
            run.cancel()
        await _wait(late | self._fitness.hung, CANCEL_S)
        log.info("drained", stage=self.stage, abandoned=len(late | self._fitness.hung))

    async def _take(self, tasks: asyncio.TaskGroup) -> None:
        while not self._draining.is_set():
            try:
                async with self._bus.consume(self.stage, self.pool, self.group, limit=self._limit) as deliveries:
                    async for delivery in deliveries:
                        run = tasks.create_task(self._run_one(delivery), name=f"{self.stage} {delivery.event.subject}")
                        self._runs.add(run)
                        run.add_done_callback(self._runs.discard)
            except VitascopeError as error:
                if error.code not in OUTAGES:
                    raise
                log.warning("no work can be taken", stage=self.stage, code=error.code)
            await asyncio.sleep(REBIND_S)

    async def _run_one(self, delivery: Delivery) -> None:
        """Bring one delivery to its end; if its outcome cannot be recorded, it makes room and comes again."""
        try:
            if self._draining.is_set() or self._fitness.is_ending:
                await delivery.retry(0)
                return
            work = self._read(delivery)
            if work is None:
                await self._settler.reject(delivery, f"This is no event of {self.stage}.")
                return
            while (other := self._in_hand.get(work.message_id)) is not None:
                await other.ended.wait()  # sent again because beats were lost: once that run has ended the work is done
                if other.has_failed:
                    await self._hand_back(delivery, compute_delay_s(delivery.deliveries))
                    return
            held = self._in_hand[work.message_id] = InHand()
            try:
                held.has_failed = await self._work(delivery, work)
            finally:
                del self._in_hand[work.message_id]
                held.ended.set()
        except asyncio.CancelledError:
            await self._hand_back(delivery)
            raise
        except VitascopeError as error:
            log.warning(
                "outcome not recorded, the event will come again",
                job=delivery.event.subject,
                stage=self.stage,
                code=error.code,
            )
            await self._hand_back(delivery, compute_delay_s(delivery.deliveries))

    async def _work(self, delivery: Delivery, work: WorkItem) -> bool:
        """Whether the work was tried and failed."""
        if self._draining.is_set() or self._fitness.is_ending:
            await delivery.retry(0)
            return False
        if delivery.deliveries > MAX_TAKES:
            await self._settler.exhaust(delivery, work)
            return False
        run = StageRun(
            self._handler, self._settler, self._fitness, delivery=delivery, work=work, draining=self._draining
        )
        return await run.run() in {Verdict.RETRY, Verdict.FAIL}

    def _read(self, delivery: Delivery) -> WorkItem | None:
        try:
            work = WorkItem.from_event(delivery.event)
        except ValidationError:
            return None
        return work if work.stage is self.stage else None

    async def _hand_back(self, delivery: Delivery, delay_s: float = 0.0) -> None:
        try:
            await delivery.retry(delay_s)
        except VitascopeError as error:
            log.warning("not handed back", job=delivery.event.subject, stage=self.stage, code=error.code)


async def _wait(tasks: Collection[asyncio.Task[Any]], timeout_s: float) -> set[asyncio.Task[Any]]:
    """Those of the tasks that have not ended in time."""
    if not tasks:
        return set()
    _, late = await asyncio.wait(set(tasks), timeout=timeout_s)
    return late
