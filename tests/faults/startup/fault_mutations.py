"""Products with a bug, named in `FAULTS_FOLDER/mutation`: the harness must notice every one of them."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fault_imports import Change
from fault_place import FOLDER


def read() -> Mapping[str, Sequence[Change]]:
    """The changes of the bug that this process is to have, if any."""
    path = FOLDER / "mutation"
    name = path.read_text() if path.exists() else ""
    return MUTATIONS[name] if name else {}


def _break_fence(module: Any) -> None:
    """A process whose attempt is old may change the record."""
    module.check_fence = lambda _record, _attempt, _stage: None
    module.check_successor = lambda _old, _new: None
    module._move = lambda record, state, **changes: module._run(record, state=state, **changes)
    module.note_checkpoint = lambda record, _attempt, kept: module._run(record, checkpoint=kept, step=kept.step)


def _break_event_ids(module: Any) -> None:
    """A public event that is announced again is another event."""
    make: Callable[..., Any] = module.make_job_event
    module.make_job_event = lambda *given: make(*given).model_copy(update={"id": uuid.uuid4().hex})


def _break_memory(module: Any) -> None:
    """Idempotency keys are forgotten."""

    async def remember(_self: Any, _tenant: str, _key: str, _value: bytes) -> None:
        return None

    module.JetStreamLedger.remember = remember


def _skip_checkpoint(module: Any) -> None:
    """Every resume begins at the first step."""

    async def load(ledger: Any, _store: Any, tenure: Any, _fingerprint: str) -> None:
        await module.forget_checkpoint(ledger, tenure, "a bug")

    module.load_checkpoint = load


def _resume_old_state(module: Any) -> None:
    """A resume takes another state for that of its checkpoint."""
    run: Callable[..., bytes] = module.DenoiseModel.run

    def keeping(self: Any, request: Any, on_step: Any = None, resume: bytes | None = None) -> bytes:
        if resume is not None:
            head, _ = module._unpack(resume)
            resume = module._pack(head, module._stretch(b"another state"))
        return run(self, request, on_step, resume)

    module.DenoiseModel.run = keeping


def _dispatch_twice(module: Any) -> None:
    """Every job goes to two groups at once."""
    publish: Callable[..., Any] = module.Dispatcher._publish

    async def twice(self: Any, record: Any, stage: Any) -> None:
        await publish(self, record, stage)
        if record.run.group in {"g0", "g1"}:
            other = "g1" if record.run.group == "g0" else "g0"
            run = record.run.model_copy(update={"group": other})
            event = module.make_work_item(record, stage).to_event(self.clock.now())
            event = event.model_copy(update={"id": f"{event.id}:{other}"})
            await self.bus.publish_work(module.subject_of_work(record.model_copy(update={"run": run}), stage), event)

    module.Dispatcher._publish = twice


def _remove_nothing(module: Any) -> None:
    """Objects that nobody needs any more stay."""

    async def remove(_self: Any, _keys: Any) -> None:
        pass

    module.S3ObjectStore.remove = remove


MUTATIONS: Mapping[str, Mapping[str, Sequence[Change]]] = {
    "fence": {"vitascope.contracts.transitions": [_break_fence]},
    "event ids": {"vitascope.contracts.events": [_break_event_ids]},
    "idempotency": {"vitascope.adapters.jetstream.ledger": [_break_memory]},
    "checkpoint skipped": {"vitascope.denoise.checkpoint": [_skip_checkpoint]},
    "old state resumed": {"fault_engine": [_resume_old_state]},
    "double dispatch": {"vitascope_operator.scheduling.dispatcher": [_dispatch_twice]},
    "nothing removed": {"vitascope.adapters.s3.store": [_remove_nothing]},
}
