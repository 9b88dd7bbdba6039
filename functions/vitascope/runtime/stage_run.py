"""One delivery of a stage: kept alive and watched while it is worked on, and settled, whatever comes of it."""

import asyncio
import time
from dataclasses import replace
from itertools import count

import structlog

from vitascope.contracts.events import WorkItem
from vitascope.contracts.failures import Failure, FailureCode, VitascopeError
from vitascope.runtime import telemetry
from vitascope.runtime.fitness import Fitness
from vitascope.runtime.outcome import Outcome, Verdict, compute_delay_s, judge
from vitascope.runtime.ports import Delivery
from vitascope.runtime.settle import Settler
from vitascope.runtime.stage import Pulse, StageHandler
from vitascope.runtime.watchdog import Watchdog

BEAT_S = 10.0
"""A third of the bus's `ack_wait` (30 s): two beats may be lost before an event goes to somebody else."""

log = structlog.get_logger(__name__)


class StageRun:
    """The work on one delivery. Its outcome is recorded before anything else follows from it."""

    def __init__(
        self,
        handler: StageHandler,
        settler: Settler,
        fitness: Fitness,
        *,
        delivery: Delivery,
        work: WorkItem,
        draining: asyncio.Event,
    ) -> None:
        self._handler, self._settler, self._fitness, self._draining = handler, settler, fitness, draining
        self._delivery, self._work, self._stage = delivery, work, handler.stage
        self._pulse, self._began_s = Pulse(), time.monotonic()
        self._watchdog = Watchdog(self._pulse, self._stage, self._began_s)
        self._fields = {"job": work.job, "stage": self._stage, "attempt": work.attempt}

    async def run(self) -> Verdict:
        """Bring the delivery to its end; what has come of it.

        Raises:
            VitascopeError: the outcome could not be recorded; the event comes again.
        """
        if self._delivery.deliveries > 1:
            telemetry.STAGE_REDELIVERIES.labels(stage=self._stage).inc()
        handling = asyncio.create_task(self._handle(), name=f"{self._stage} handler {self._work.job}")
        beating = asyncio.create_task(self._beat(), name=f"{self._stage} beat {self._work.job}")
        try:
            with telemetry.STAGE_BUSY.labels(stage=self._stage).track_inprogress():
                await asyncio.wait({handling, beating}, return_when=asyncio.FIRST_COMPLETED)
                if not handling.done():
                    await self._cut_off(handling, beating.result())
                    return Verdict.RETRY
                await self._settle(handling.result())
                return handling.result().verdict
        finally:
            ours = {handling, beating} - self._fitness.hung
            for task in ours:
                task.cancel()
            await asyncio.wait(ours)

    async def _handle(self) -> Outcome:
        """Try until there is an outcome that is none of a server's absence.

        The event is kept meanwhile: nobody else could do more, and each delivery counts as a try that was begun. It
        ends with the outage, the job or the process.
        """
        await self._fitness.wait_proven()
        for tries in count(1):
            outcome = await self._try()
            if outcome.verdict is not Verdict.WAIT:
                break
            with self._pulse.waiting():
                await _wait_set(self._draining, compute_delay_s(tries))
            if self._draining.is_set():
                break
        return outcome

    async def _try(self) -> Outcome:
        error = None
        try:
            await self._handler.handle(self._work, self._pulse)
        except Exception as raised:  # noqa: BLE001 (the one broad catch: whatever went wrong gets a recorded outcome)
            error = raised
        self._watchdog.look(time.monotonic())
        outcome = replace(judge(error, self._stage), worked_s=self._watchdog.worked_s)
        self._report(outcome, error)
        return outcome

    async def _settle(self, outcome: Outcome) -> None:
        """After an out-of-memory the self-test comes first: this delivery keeps its place meanwhile."""
        is_fit = True
        if outcome.is_out_of_memory:
            with self._pulse.waiting():
                is_fit = await self._fitness.prove(self._work.job)
        try:
            await self._settler.settle(self._delivery, self._work, outcome)
        finally:
            if not is_fit:
                self._fitness.stalled.set()

    async def _cut_off(self, handling: asyncio.Task[Outcome], failure: Failure) -> None:
        """Give the run up and say so in the record; a process whose run does not end by that must end itself.

        The run is told first, so that it changes nothing more on its way out; what it had under way is fenced by the
        record. A run that took too long is not hung as long as it ends within the silence that is allowed.
        """
        outcome = Outcome(Verdict.RETRY, failure, worked_s=self._watchdog.worked_s)
        self._report(outcome, None)
        is_hung = failure.code is FailureCode.STAGE_STALLED
        if is_hung:
            self._fitness.give_up(handling)
        else:
            handling.cancel()
        try:
            await self._settler.settle(self._delivery, self._work, outcome)
            if not is_hung:
                await asyncio.wait({handling}, timeout=self._pulse.stall_s)
        finally:
            if is_hung or not handling.done():
                self._fitness.give_up(handling)
                self._fitness.stalled.set()

    async def _beat(self) -> Failure:
        """Keep the delivery ours, for as long as the watchdog has nothing to say against the run."""
        while True:
            await asyncio.sleep(BEAT_S)
            failure = self._watchdog.look(time.monotonic())
            if failure is not None:
                return failure
            try:
                await self._delivery.beat()
            except VitascopeError as error:
                log.warning("beat lost", **self._fields, code=error.code)

    def _report(self, outcome: Outcome, error: Exception | None) -> None:
        verdict, elapsed_s = outcome.verdict, time.monotonic() - self._began_s
        telemetry.STAGE_DURATION.labels(stage=self._stage, outcome=verdict).observe(elapsed_s)
        fields = {**self._fields, "outcome": verdict, "elapsed_s": elapsed_s}
        if outcome.failure is not None:
            fields |= {"code": outcome.failure.code, "message": outcome.failure.message}
        if verdict in {Verdict.RETRY, Verdict.FAIL}:
            log.error("run failed", **fields, exc_info=error)
        else:
            log.info("run ended", **fields)


async def _wait_set(event: asyncio.Event, timeout_s: float) -> None:
    """Return when the event is set, or after so long."""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return
