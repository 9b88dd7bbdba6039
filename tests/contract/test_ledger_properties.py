"""Random histories of one record under several writers, some of them late: the promises of the ledger hold."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from records import ENGINE, NOW, RESULT, object_ref, queued_record
from servers import RunningNats
from vitascope.adapters.jetstream import Connection, JetStreamLedger, ensure
from vitascope.adapters.memory import MemoryBroker
from vitascope.contracts import transitions
from vitascope.contracts.failures import Failure, FailureCode, VitascopeError
from vitascope.contracts.flow import TERMINAL, Stage, State
from vitascope.contracts.jobs import Checkpoint, JobRecord
from vitascope.runtime.advance import advance
from vitascope.runtime.ports import Conflict, Ledger, Stamped

Change = Callable[[JobRecord, int], JobRecord]

CHANGES: dict[str, Change] = {
    "start": lambda record, _: transitions.start(record, "g0", NOW),
    "checkpoint": lambda record, attempt: transitions.note_checkpoint(
        record, attempt, Checkpoint(object=object_ref(), step=record.run.step + 1, fingerprint="f")
    ),
    "requeue": lambda record, attempt: transitions.requeue(record, attempt, "preempted"),
    "note failure": lambda record, attempt: transitions.note_failure(record, attempt, Stage.DECODE, "again"),
    "denoised": lambda record, attempt: transitions.finish_denoise(
        record, attempt, latents=object_ref(), engine=ENGINE, gpu_s=1.0, stage_s=1.0, now=NOW
    ),
    "decoded": lambda record, attempt: transitions.finish_decode(record, attempt, chunks=1, stage_s=1.0, now=NOW),
    "encoded": lambda record, attempt: transitions.succeed(record, attempt, RESULT, stage_s=1.0, now=NOW),
    "fail": lambda record, attempt: transitions.fail(record, attempt, Failure.of(FailureCode.DENOISE_FAILED), NOW),
    "cancel": lambda record, _: transitions.cancel(record, NOW),
    "expire": lambda record, _: transitions.expire(record, NOW),
}
GONE = frozenset({FailureCode.NOT_FOUND, FailureCode.SERVICE_UNAVAILABLE})
FENCED = frozenset(CHANGES) - {"start", "cancel", "expire"}


@dataclass(frozen=True)
class Act:
    """One writer's deed: through `advance`, or by itself with the record as it read it some deeds ago."""

    change: str
    attempts_late: int
    reads_late: int | None


ACTS = st.builds(
    Act,
    change=st.sampled_from(sorted(CHANGES)),
    attempts_late=st.sampled_from([0, 0, 0, 1, 2]),
    reads_late=st.sampled_from([None, None, 0, 1, 3]),
)
ROUNDS = st.lists(st.lists(ACTS, min_size=1, max_size=4), min_size=1, max_size=25)


@dataclass
class History:
    """What the ledger said so far about one record; the newest last."""

    stored: list[Stamped] = field(default_factory=list)

    @property
    def newest(self) -> Stamped:
        return self.stored[-1]


async def run_act(ledger: Ledger, history: History, act: Act) -> None:
    """Do it; note what the ledger confirmed."""
    newest = history.newest.record
    attempt = newest.run.attempt - act.attempts_late

    def change(record: JobRecord) -> JobRecord:
        return CHANGES[act.change](record, attempt)

    try:
        if act.reads_late is None:
            stamped = await advance(ledger, newest.id, change)
        else:
            read = history.stored[max(-len(history.stored), -1 - act.reads_late)]
            changed = change(read.record)
            stamped = read if changed is read.record else await ledger.replace(read, changed)
    except (transitions.TransitionError, Conflict):
        return
    if stamped.revision > history.newest.revision or all(stamped.revision != old.revision for old in history.stored):
        assert act.change not in FENCED or act.attempts_late == 0
        history.stored.append(stamped)


async def check_rounds(ledger: Ledger, rounds: list[list[Act]]) -> None:
    """Run each round's acts at once, then look at the whole history."""
    history = History([await ledger.create(queued_record())])
    for acts in rounds:
        before = history.newest
        await asyncio.gather(*(run_act(ledger, history, act) for act in acts))
        history.stored.sort(key=lambda stamped: stamped.revision)
        assert history.newest == await ledger.get(before.record.id)
    for old, new in zip(history.stored, history.stored[1:], strict=False):
        assert old.record.run.attempt <= new.record.run.attempt
        assert old.record.state not in TERMINAL or new.record.state is State.EXPIRED
        transitions.check_successor(old.record, new.record)


async def check_forgetting(ledger: Ledger, acts: list[Act]) -> None:
    """Forget a record while others change it: either it is gone and nothing was changed, or it is there and was."""
    history = History([await ledger.create(queued_record())])
    first = history.newest

    async def forget() -> bool:
        try:
            await ledger.forget(first)
        except Conflict:
            return False
        return True

    _, is_forgotten = await asyncio.gather(_run_acts(ledger, history, acts), forget())
    history.stored.sort(key=lambda stamped: stamped.revision)
    if is_forgotten:
        assert [first] == history.stored
        assert await ledger.get(first.record.id) is None
    else:
        assert history.newest == await ledger.get(first.record.id)
        assert first != history.newest


async def _run_acts(ledger: Ledger, history: History, acts: list[Act]) -> None:
    outcomes = await asyncio.gather(*(run_act(ledger, history, act) for act in acts), return_exceptions=True)
    for outcome in outcomes:  # whoever reads after it was forgotten is told so; a job of that age may be a lost one
        assert outcome is None or (isinstance(outcome, VitascopeError) and outcome.code in GONE)


@given(acts=st.lists(ACTS, max_size=6))
@settings(max_examples=100, deadline=None)
def test_record_is_forgotten_or_changed_in_memory(acts: list[Act]) -> None:
    """Never both."""
    asyncio.run(check_forgetting(MemoryBroker().ledger, acts))


@given(acts=st.lists(ACTS, max_size=6))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_record_is_forgotten_or_changed_on_a_server(nats_server: RunningNats, acts: list[Act]) -> None:
    """The same where the forgetter and the writers really race."""

    async def run() -> None:
        async with Connection(nats_server.url) as connection:
            await ensure(connection)
            await check_forgetting(JetStreamLedger(connection), acts)

    asyncio.run(run())


@given(rounds=ROUNDS)
@settings(max_examples=300, deadline=None)
def test_no_history_breaks_the_rules_in_memory(rounds: list[list[Act]]) -> None:
    """A terminal state stays, the attempt never falls, a late writer changes nothing, nothing confirmed is lost."""
    asyncio.run(check_rounds(MemoryBroker().ledger, rounds))


@given(rounds=ROUNDS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_history_breaks_the_rules_on_a_server(nats_server: RunningNats, rounds: list[list[Act]]) -> None:
    """The same on JetStream, where the writers really race."""

    async def run() -> None:
        async with Connection(nats_server.url) as connection:
            await ensure(connection)
            await check_rounds(JetStreamLedger(connection), rounds)

    asyncio.run(run())
