"""The dispatcher: listens, lets the core decide, acts. Everything it does is fenced by the record's attempt."""

import asyncio
from dataclasses import KW_ONLY, dataclass
from functools import partial

import structlog

from vitascope.contracts import transitions
from vitascope.contracts.events import make_work_item
from vitascope.contracts.failures import Failure, FailureCode, VitascopeError
from vitascope.contracts.flow import STAGE_OF, Stage, State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.subjects import subject_of_work
from vitascope.runtime.advance import advance
from vitascope.runtime.ports import Bus, Clock, Conflict, Ledger, ObjectStore, Registry, Stamped
from vitascope.runtime.rebuild import Rebuilder
from vitascope_operator.scheduling.core import Action, Dispatch, GiveUp, Repair, Requeue, plan
from vitascope_operator.scheduling.leader import Leadership
from vitascope_operator.scheduling.loss import wait_lost
from vitascope_operator.scheduling.view import FleetView

RETRY_S = 1.0
"""Pause after an action that the bus or the ledger did not take: they reconnect by themselves."""
REBUILD_RETRY_MAX_S = 30.0
"""Pauses between tries to rebuild the ledger double up to this; they end with the reign."""
MAX_LOSSES = 3
"""A job that loses its group so often without a new checkpoint in between is taken for the cause, and fails."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Dispatcher:
    """Runs beside others of its kind; only the one that holds the lease acts.

    A reign is one view of one ledger. When the ledger is lost, the reign ends; the next one begins with an empty view
    and rebuilds the ledger while it dispatches.
    """

    ledger: Ledger
    bus: Bus
    registry: Registry
    clock: Clock
    _: KW_ONLY
    store: ObjectStore
    holder: str
    lease_s: float
    group_lease_s: float

    async def run(self) -> None:
        """Wait for the lease, dispatch while it is held, and again; ends only by cancellation."""
        leadership = Leadership(self.registry, self.holder, self.lease_s)
        try:
            while True:
                await leadership.wait()
                await self._lead(leadership)
        finally:
            await leadership.release()

    async def _lead(self, leadership: Leadership) -> None:
        """Dispatch until the lease or the ledger is lost or a feed breaks."""
        try:
            birth = await self.ledger.get_birth()
        except VitascopeError as away:
            log.warning("dispatch cannot begin", error=str(away))
            await asyncio.sleep(RETRY_S)
            return
        view = FleetView(self.group_lease_s, since=self.clock.now())
        news, jobs_known = asyncio.Event(), asyncio.Event()
        tasks = [
            asyncio.create_task(leadership.keep(), name="keep lease"),
            asyncio.create_task(wait_lost(self.ledger, self.bus, birth), name="watch for a loss"),
            asyncio.create_task(self._rebuild(), name="rebuild"),
            asyncio.create_task(self._follow_jobs(view, news, jobs_known), name="follow jobs"),
            asyncio.create_task(self._follow_groups(view, news), name="follow groups"),
            asyncio.create_task(self._dispatch(view, news, jobs_known), name="dispatch"),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            if (error := task.exception()) is not None:
                log.warning("dispatch interrupted", part=task.get_name(), error=repr(error))
                await asyncio.sleep(RETRY_S)

    async def _rebuild(self) -> None:
        """Have the ledger complete, through outages; then nothing more, until the reign ends."""
        wait_s = RETRY_S
        while True:
            try:
                await Rebuilder(self.ledger, self.store, self.clock).complete()
                break
            except VitascopeError as error:
                log.warning("ledger not rebuilt yet", error=str(error))
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, REBUILD_RETRY_MAX_S)
        await asyncio.get_running_loop().create_future()

    async def _follow_jobs(self, view: FleetView, news: asyncio.Event, known: asyncio.Event) -> None:
        async with self.ledger.watch() as changes:
            async for stamped in changes:
                if stamped is None:
                    known.set()
                else:
                    view.note_job(stamped, self.clock.now())
                news.set()

    async def _follow_groups(self, view: FleetView, news: asyncio.Event) -> None:
        async with self.registry.watch_groups() as rows:
            async for row in rows:
                if isinstance(row, str):
                    view.note_group_gone(row)
                elif row is not None:
                    view.note_group(row, self.clock.now())
                news.set()

    async def _dispatch(self, view: FleetView, news: asyncio.Event, known: asyncio.Event) -> None:
        heard = self.bus.count_connections()
        await known.wait()
        while True:
            news.clear()
            if not self.bus.is_connected() or self.bus.count_connections() != heard:
                heard = await self._sit_out(view)
            for action in plan(view.snapshot(self.clock.now())):
                await self._act(view, action)
            due = view.next_due(self.clock.now())
            wait_s = None if due is None else max((due - self.clock.now()).total_seconds(), 0.01)
            try:
                async with asyncio.timeout(wait_s):
                    await news.wait()
            except TimeoutError:
                continue

    async def _sit_out(self, view: FleetView) -> int:
        """Decide nothing while cut off: silence then says nothing about the groups. The number of the connection."""
        log.warning("dispatch pauses: the bus cannot be reached")
        while not self.bus.is_connected():  # noqa: ASYNC110 (the client reconnects by itself and tells nobody)
            await asyncio.sleep(RETRY_S)
        view.forgive(self.clock.now())
        return self.bus.count_connections()

    async def _act(self, view: FleetView, action: Action) -> None:
        """Do one action. What others were faster at is no longer due; what could not be done is decided again."""
        try:
            changed = await self._apply(view, action)
        except (Conflict, transitions.TransitionError) as error:
            log.info("action overtaken", job=action.job, action=type(action).__name__, why=str(error))
            changed = await self.ledger.get(action.job)
        except VitascopeError as error:
            log.warning("action failed", job=action.job, action=type(action).__name__, error=str(error))
            await asyncio.sleep(RETRY_S)
            changed = None
        if changed is not None:
            view.note_job(changed, self.clock.now())

    async def _apply(self, view: FleetView, action: Action) -> Stamped | None:
        match action:
            case Dispatch():
                return await self._start(view, action)
            case Requeue(job, attempt, reason, is_failure):
                log.warning("job lost its group", job=job, attempt=attempt, reason=reason)
                change = self._lose if is_failure else transitions.requeue
                before = view.get(job)  # the view may hear of the change before we have its answer
                stamped = await advance(self.ledger, job, partial(change, attempt=attempt, reason=reason))
                await self._drop_event(before)
                return stamped
            case GiveUp(job):
                log.info("start deadline passed", job=job)
                return await advance(self.ledger, job, self._give_up)
            case Repair(job, stage):
                return await self._repair(job, stage)

    async def _start(self, view: FleetView, action: Dispatch) -> Stamped | None:
        """Compare-and-set on the record that the view holds (one write, no read), then the event."""
        current = view.get(action.job)
        if current is None or current.record.state is not State.QUEUED:
            return None
        started = transitions.start(current.record, action.group, self.clock.now())
        stamped = await self.ledger.replace(current, started)
        view.note_job(stamped, self.clock.now())
        await self._publish(stamped.record, Stage.DENOISE)
        log.info("job dispatched", job=action.job, attempt=started.run.attempt, group=action.group)
        return stamped

    async def _drop_event(self, before: Stamped | None) -> None:
        """The event that waits for the lost group: nobody may ever come back under that name to take it."""
        if before is not None and before.record.state is State.RUNNING:
            await self.bus.drop_work(subject_of_work(before.record, Stage.DENOISE))

    async def _repair(self, job: str, stage: Stage) -> Stamped | None:
        current = await self.ledger.get(job)
        if current is None or STAGE_OF.get(current.record.state) is not stage:
            return current
        if not await self.bus.has_work(subject_of_work(current.record, stage)):
            log.warning("missing event published", job=job, stage=stage, attempt=current.record.run.attempt)
            await self._publish(current.record, stage)
        return current

    async def _publish(self, record: JobRecord, stage: Stage) -> None:
        await self.bus.publish_work(
            subject_of_work(record, stage), make_work_item(record, stage).to_event(self.clock.now())
        )

    def _lose(self, record: JobRecord, *, attempt: int, reason: str) -> JobRecord:
        return transitions.lose(record, attempt, reason, max_losses=MAX_LOSSES, now=self.clock.now())

    def _give_up(self, record: JobRecord) -> JobRecord:
        if record.state is not State.QUEUED:
            raise transitions.IllegalTransition(f"{record.id} has started")
        failure = Failure.of(FailureCode.START_DEADLINE_PASSED)
        return transitions.fail(record, record.run.attempt, failure, self.clock.now())
