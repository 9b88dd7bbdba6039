"""Public events: one for each state that a job reaches.

What a consumer of `vitascope.events.>` may rely on:

- every job's newest state is announced, and above all its end, also after any outage;
- a state between two others may be missing, if both changes fell into an outage of this process;
- an event may come more than once, after a restart of this process for example. Copies have equal ids, and the stream
  drops those inside its window;
- the extension `sequence` rises for each job: an event whose sequence is not above the last one seen is old.
"""

from vitascope.contracts.events import make_job_event
from vitascope.contracts.flow import State
from vitascope.contracts.subjects import event_subject
from vitascope.runtime.ports import Bus, Clock, Stamped


class Announcer:
    """Publishes the event of a record whose state or attempt is new."""

    def __init__(self, bus: Bus, clock: Clock) -> None:
        self._bus, self._clock = bus, clock
        self._announced: dict[str, tuple[State, int]] = {}

    async def handle(self, stamped: Stamped) -> None:
        """Announce the change, unless it left state and attempt as they were."""
        record = stamped.record
        now_at = (record.state, record.run.attempt)
        if self._announced.get(record.id) == now_at:
            return
        event = make_job_event(record, stamped.revision, self._clock.now())
        await self._bus.publish_event(event_subject(record.request.tenant, record.id, event.type), event)
        if record.is_terminal:
            self._announced.pop(record.id, None)
        else:
            self._announced[record.id] = now_at
