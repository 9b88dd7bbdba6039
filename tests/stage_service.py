"""A real stage process on ports in memory, steered line by line over stdin; what it does is told on stdout as JSON.

Run as `python stage_service.py HANDLER LOADING`. Handlers: polite (works until `finish`, hands back when told to
drain), stubborn (does not hear of the drain, and has little time), deaf (likewise, with time), hung (shows no sign of
life). Loading: waits (for `loaded`), fails.
"""

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

from records import NOW, record_in
from vitascope.adapters.memory import MemoryBroker
from vitascope.contracts import subjects, transitions
from vitascope.contracts.deadlines import StageLimits
from vitascope.contracts.events import WorkItem, make_work_item
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.flow import Stage, State
from vitascope.runtime import stage_run
from vitascope.runtime.advance import advance
from vitascope.runtime.ports import SystemClock
from vitascope.runtime.serving import StageService
from vitascope.runtime.settings import LogSettings
from vitascope.runtime.stage import HandBack, Pulse
from vitascope.runtime.stage_loop import StageLoop
from vitascope.runtime.telemetry import configure_logs

GRACE_S = {"polite": 30.0, "stubborn": 0.2, "deaf": 30.0, "hung": 0.2}


def tell(what: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"what": what, **fields}) + "\n")
    sys.stdout.flush()


class ScriptedHandler:
    """Keeps a thread busy with Python code, which is harder on the event loop than torch, until it is told to end."""

    stage = Stage.DECODE

    def __init__(self, broker: MemoryBroker, kind: str) -> None:
        self._broker, self._kind = broker, kind
        self.finish, self.told_to_drain = threading.Event(), threading.Event()

    async def handle(self, work: WorkItem, pulse: Pulse) -> None:
        tell("handling", job=work.job)
        if self._kind == "hung":
            pulse.expect(StageLimits(step_s=0.0, first_s=0.0, limit_s=60.0))
        await asyncio.to_thread(self._burn, pulse)
        if not self.finish.is_set():
            raise HandBack
        stamped = await advance(
            self._broker.ledger,
            work.job,
            lambda record: transitions.finish_decode(record, work.attempt, chunks=1, stage_s=1.0, now=NOW),
        )
        following = make_work_item(stamped.record, Stage.ENCODE)
        subject = subjects.work_subject(Stage.ENCODE, "default", work.job)
        await self._broker.bus.publish_work(subject, following.to_event(NOW))
        tell("handled", job=work.job)

    async def drain(self) -> None:
        tell("told to drain")
        self.told_to_drain.set()

    async def prove(self) -> None:
        """It never runs out of memory."""

    def _burn(self, pulse: Pulse) -> None:
        while not self.finish.is_set() and not (self.told_to_drain.is_set() and self._kind == "polite"):
            sum(range(10_000))
            if self._kind != "hung":
                pulse.touch()


def _read_commands(running: asyncio.AbstractEventLoop, obey: Callable[[str], None]) -> None:
    for line in sys.stdin:
        running.call_soon_threadsafe(obey, line.strip())


async def main(kind: str, loading: str) -> int:
    broker = MemoryBroker()
    record = record_in(State.DECODING)
    await broker.ledger.create(record)
    handler, loaded = ScriptedHandler(broker, kind), asyncio.Event()

    async def load() -> None:
        await loaded.wait()
        if loading == "fails":
            raise VitascopeError(FailureCode.MODEL_FOLDER_INVALID, "There is no transformer.")

    def obey(command: str) -> None:
        match command:
            case "loaded":
                loaded.set()
            case "finish":
                handler.finish.set()
            case "disconnect" | "connect":
                broker.set_connected(connected=command == "connect")
        tell("obeyed", command=command)

    running = asyncio.get_running_loop()
    threading.Thread(target=_read_commands, args=(running, obey), name="commands", daemon=True).start()

    loop = StageLoop(handler, broker.bus, broker.ledger, clock=SystemClock(), pool="default")
    service = StageService(
        loop,
        broker.bus,
        broker.ledger,
        clock=SystemClock(),
        name="decode",
        load=load,
        grace_s=GRACE_S[kind],
    )
    status = await service.serve("127.0.0.1", 0, lambda port: tell("bound", port=port, job=record.id))
    current = await broker.ledger.get(record.id)
    assert current is not None
    left = {
        stage: await broker.bus.has_work(subjects.work_subject(stage, "default", record.id))
        for stage in (Stage.DECODE, Stage.ENCODE)
    }
    tell("left", state=current.record.state, failures=current.record.run.failures, work=left, status=status)
    return status


if __name__ == "__main__":
    configure_logs(LogSettings(), "decode")
    stage_run.BEAT_S = 0.05
    sys.exit(asyncio.run(main(*sys.argv[1:])))
