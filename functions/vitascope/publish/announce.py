"""Public events: one for each state that a job reaches.

What a consumer of `vitascope.events.>` may rely on:

- every job's newest state is announced, and above all its end, also after any outage;
- a state between two others may be missing, if both changes fell into an outage of this process;
- an event may come more than once, after a restart of this process for example. Copies have equal ids, and the stream
  drops those inside its window;
- an end is announced once it can no longer be lost: after its copy is in the object store, from which a lost ledger is
  rebuilt. So no job that is rebuilt ends a second time, in another way;
- after a loss of the ledger, and with it of the stream, every end that was rebuilt is announced again with its old id;
- the extension `sequence` rises for each job: an event whose sequence is not above the last one seen is old.
"""

from vitascope.contracts.events import make_job_event
from vitascope.contracts.flow import State
from vitascope.contracts.subjects import event_subject
from vitascope.publish.follow import ChangeHandler
from vitascope.runtime.ports import Bus, Clock, Stamped


class Announcer:
    """Publishes the event of a record whose state or attempt is new."""

    def __init__(self, bus: Bus, clock: Clock, copies: ChangeHandler) -> None:
        """`copies` stores the copy of a record, if that is not done yet."""
        self._bus, self._clock, self._copies = bus, clock, copies
        self._announced: dict[str, tuple[State, int]] = {}

    async def handle(self, stamped: Stamped) -> None:
        """Announce the change, unless it left state and attempt as they were."""
        record = stamped.record
        now_at = (record.state, record.run.attempt)
        if self._announced.get(record.id) == now_at:
            return
        if record.is_terminal:
            await self._copies.handle(stamped)
        event = make_job_event(record, stamped.revision, self._clock.now())
        await self._bus.publish_event(event_subject(record.request.tenant, record.id, event.type), event)
        if record.is_terminal:
            self._announced.pop(record.id, None)
        else:
            self._announced[record.id] = now_at
