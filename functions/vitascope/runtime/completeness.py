"""Whether the ledger holds every job that was accepted: not so from its making until it is rebuilt from the copies.

A mark in the object store names the ledger, by its birth, that is complete. Whoever is about to conclude something from
the absence of a record or of an idempotency key asks here first.
"""

from datetime import datetime, timedelta

import structlog
from pydantic import AwareDatetime, ValidationError

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.frozen import Stored
from vitascope.contracts.ids import read_job_time
from vitascope.contracts.objects import REBUILT_KEY
from vitascope.runtime.ports import Ledger, ObjectStore

SKEW = timedelta(seconds=30)
"""So far the clock of a process may be ahead of the bus server's."""

log = structlog.get_logger(__name__)


class RebuildMark(Stored):
    """The ledger made at `birth` was complete at `at`."""

    birth: AwareDatetime
    at: AwareDatetime


class Completeness:
    """Answers for one ledger and one store; once complete, a ledger stays so, and the store is not asked again."""

    def __init__(self, ledger: Ledger, store: ObjectStore) -> None:
        self._ledger, self._store = ledger, store
        self._mark: RebuildMark | None = None

    async def is_complete(self) -> bool:
        """Whether the ledger has every accepted job.

        Raises:
            VitascopeError: the ledger or the store cannot be reached.
        """
        return await self.find_mark() is not None

    async def check(self) -> None:
        """Go on, or not: for whoever is about to conclude something from what the ledger does not have.

        Raises:
            VitascopeError: `service_unavailable`, it is not complete; or as `is_complete`.
        """
        if not await self.is_complete():
            raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "The jobs are being rebuilt from their copies.")

    async def find_mark(self) -> RebuildMark | None:
        """The mark of the present ledger; None until it is rebuilt.

        Raises:
            VitascopeError: as `is_complete`.
        """
        birth = await self._ledger.get_birth()
        if self._mark is None or self._mark.birth != birth:
            self._mark = await self.load_mark()
        return self._mark if self._mark is not None and self._mark.birth == birth else None

    async def load_mark(self) -> RebuildMark | None:
        """The mark in the store, of whatever ledger."""
        try:
            return RebuildMark.model_validate_json(await self._store.get(REBUILT_KEY))
        except ValidationError:
            log.warning("rebuild mark is not readable")
        except VitascopeError as error:
            if error.code is not FailureCode.OBJECT_MISSING:
                raise
        return None


async def save_mark(store: ObjectStore, mark: RebuildMark) -> None:
    """Say that a ledger is complete.

    Raises:
        VitascopeError: the store did not take it.
    """
    await store.put(REBUILT_KEY, mark.model_dump_json().encode(), "application/json")


def is_of_lost_ledger(created: datetime, birth: datetime) -> bool:
    """Whether a job made at that time must have been in a ledger before the one of that birth."""
    return created < birth + SKEW


async def check_not_lost(ledger: Ledger, job: str) -> None:
    """For a job that the ledger does not have: raise if it is missing only because the ledger was lost.

    Raises:
        VitascopeError: `service_unavailable`, the record is still to be rebuilt; or the ledger cannot be reached.
    """
    try:
        made = read_job_time(job)
    except ValueError:  # an id that we never made was in no ledger
        return
    if is_of_lost_ledger(made, await ledger.get_birth()):
        raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, f"The record of {job} is still to be rebuilt.")
