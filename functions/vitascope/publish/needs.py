"""Which objects a record still has a use for: the one rule for whoever takes something away. Pure."""

from vitascope.contracts.flow import State
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import ObjectClass, read_place
from vitascope.runtime.leftovers import list_referenced, list_results, list_resumable

DONE_WITH = frozenset({State.EXPIRED, State.CANCELLED, State.REFUSED, State.WITHHELD})
"""States in which a job has no use for any file."""


def is_needed(record: JobRecord, key: str) -> bool:
    """Whether somebody may still ask for an object of the record's job. Copies of records are not judged here.

    - A live job needs its inputs, all that its present attempt made or is making, and what the record points to.
    - A failed job needs its inputs and the latents or the checkpoint that another try would go on from.
    - A job that came to a result needs its inputs and its output; what was on the way has served.
    - A cancelled, refused, withheld or expired job needs nothing.
    """
    place = read_place(key)
    if place is None or place.kind is ObjectClass.RECORDS:
        return True
    if record.state in DONE_WITH:
        return False
    if place.kind is ObjectClass.INPUTS:
        return True
    if record.state is State.FAILED:
        return key in list_resumable(record)
    if record.is_terminal:
        return key in list_results(record)
    is_of_old = place.attempt is not None and place.attempt < record.run.attempt
    return not is_of_old or key in list_referenced(record)
