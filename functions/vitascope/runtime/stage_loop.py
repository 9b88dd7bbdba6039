"""The stage loop: takes a stage's events from the bus, keeps each alive while it is worked on, and settles it."""

import asyncio
import time

import structlog
from pydantic import ValidationError

from vitascope.contracts.events import WorkItem
from vitascope.contracts.failures import VitascopeError
from vitascope.contracts.flow import Stage
from vitascope.runtime import telemetry
from vitascope.runtime.outcome import MAX_TAKES, OUTAGES, Outcome, Verdict, judge
from vitascope.runtime.ports import Bus, Clock, Delivery, Ledger
from vitascope.runtime.settle import Settler
from vitascope.runtime.stage import Pulse, StageHandler

BEAT_S = 10.0
"""A third of the bus's `ack_wait` (30 s): two beats may be lost before an event goes to somebody else."""
REBIND_S = 2.0
"""Pause before work is asked for again after the bus refused."""
CANCEL_S = 5.0
"""So long a cancelled run, and the end of taking, may take to come to an end."""

log = structlog.get_logger(__name__)


class StageLoop:
    """Runs a handler on the events of one stage of one pool (denoise: of one group), `limit` at a time.

    Attributes:
        stage: the stage.
        pool: the pool whose work it takes.
        group: the group, for denoise.
        stalled: set once a handler has shown no sign of life for too long. Its event is left to somebody else; the
            process should end, because what hangs cannot be taken back.
        has_abandoned: whether a run outlived the grace of `drain`, so that a thread of its may still be at work.
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
        self.stalled = asyncio.Event()
        self.has_abandoned = False
        self._handler, self._bus, self._limit = handler, bus, limit
        self._settler = Settler(bus, ledger, clock, handler.stage)
        self._draining = False
        self._taking: asyncio.Task[None] | None = None
        self._runs: set[asyncio.Task[None]] = set()

    @property
    def is_draining(self) -> bool:
        """Whether it has stopped taking work."""
        return self._draining

    async def run(self) -> None:
        """Take and run work until `drain`, or until it is cancelled, which hands everything back."""
        if self._draining:
            return
        async with asyncio.TaskGroup() as tasks:
            self._taking = tasks.create_task(self._take(tasks), name=f"{self.stage} taking")

    async def drain(self, grace_s: float) -> None:
        """Stop taking work, tell the handler, wait for what runs; past the grace it is cancelled and handed back.

        A second call waits with the first.
        """
        if not self._draining:
            self._draining = True
            log.info("draining", stage=self.stage, running=len(self._runs))
            if self._taking is not None:
                self._taking.cancel()
            await self._handler.drain()
        await _wait({self._taking} if self._taking else set(), CANCEL_S)
        late = await _wait(self._runs, grace_s)
        for run in late:
            self.has_abandoned = True
            run.cancel()
        await _wait(late, CANCEL_S)
        log.info("drained", stage=self.stage, abandoned=len(late))

    async def _take(self, tasks: asyncio.TaskGroup) -> None:
        while not self._draining:
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
        """Bring one delivery to its end; if the bus is away meanwhile it stays unfinished, and comes again."""
        try:
            if self._draining:
                await delivery.retry(0)
                return
            work = self._read(delivery)
            if work is None:
                await self._settler.reject(delivery, f"This is no event of {self.stage}.")
                return
            if delivery.deliveries > MAX_TAKES:
                await self._settler.exhaust(delivery, work)
                return
            await self._keep_alive(delivery, work)
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

    def _read(self, delivery: Delivery) -> WorkItem | None:
        try:
            work = WorkItem.from_event(delivery.event)
        except ValidationError:
            return None
        return work if work.stage is self.stage else None

    async def _keep_alive(self, delivery: Delivery, work: WorkItem) -> None:
        pulse = Pulse()
        beating = asyncio.create_task(self._beat(delivery, work, pulse), name=f"{self.stage} beat {work.job}")
        if delivery.deliveries > 1:
            telemetry.STAGE_REDELIVERIES.labels(stage=self.stage).inc()
        try:
            with telemetry.STAGE_BUSY.labels(stage=self.stage).track_inprogress():
                outcome = await self._handle(work, pulse)
                await self._settler.settle(delivery, work, outcome)
        finally:
            beating.cancel()
            await asyncio.wait({beating})

    async def _handle(self, work: WorkItem, pulse: Pulse) -> Outcome:
        started_s, error = time.monotonic(), None
        try:
            await self._handler.handle(work, pulse)
        except Exception as raised:  # noqa: BLE001 (the one broad catch: whatever went wrong gets a recorded outcome)
            error = raised
        outcome, elapsed_s = judge(error, self.stage), time.monotonic() - started_s
        telemetry.STAGE_DURATION.labels(stage=self.stage, outcome=outcome.verdict).observe(elapsed_s)
        fields = {"job": work.job, "stage": self.stage, "attempt": work.attempt, "outcome": outcome.verdict}
        code = outcome.failure.code if outcome.failure else None
        if outcome.verdict in {Verdict.RETRY, Verdict.FAIL}:
            log.error("run failed", **fields, code=code, elapsed_s=elapsed_s, exc_info=error)
        else:
            log.info("run ended", **fields, code=code, elapsed_s=elapsed_s)
        return outcome

    async def _beat(self, delivery: Delivery, work: WorkItem, pulse: Pulse) -> None:
        while True:
            await asyncio.sleep(BEAT_S)
            if not pulse.is_fresh():
                log.error("no sign of life", job=work.job, stage=self.stage, attempt=work.attempt)
                self.stalled.set()
                return
            try:
                await delivery.beat()
            except VitascopeError as error:
                log.warning("beat lost", job=work.job, stage=self.stage, attempt=work.attempt, code=error.code)

    async def _hand_back(self, delivery: Delivery) -> None:
        try:
            await delivery.retry(0)
        except VitascopeError as error:
            log.warning("not handed back", job=delivery.event.subject, stage=self.stage, code=error.code)


async def _wait(tasks: set[asyncio.Task[None]], timeout_s: float) -> set[asyncio.Task[None]]:
    """Those of the tasks that have not ended in time."""
    if not tasks:
        return set()
    _, late = await asyncio.wait(set(tasks), timeout=timeout_s)
    return late
