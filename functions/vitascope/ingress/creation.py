"""Creation: a record's copy goes to the object store, then the record into the ledger; from then on the job exists."""

from contextlib import suppress
from dataclasses import dataclass

from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.contracts.jobs import JobRecord
from vitascope.contracts.objects import record_key
from vitascope.runtime.copies import keep_copy, put_copy
from vitascope.runtime.job_index import JobIndex
from vitascope.runtime.ports import Conflict, Ledger, ObjectStore, Stamped


@dataclass(frozen=True)
class Accepted:
    """The job, and whether an earlier request for the same had made it already."""

    stamped: Stamped
    is_replay: bool


@dataclass(frozen=True)
class Creator:
    """Makes jobs of records. Of two that make one record at the same time one wins, and both have its job."""

    ledger: Ledger
    store: ObjectStore
    jobs: JobIndex

    async def create(self, record: JobRecord) -> Accepted:
        """Store the copy, then the record.

        Raises:
            VitascopeError: the ledger or the store cannot be reached, and then the job does not exist, unless the
                ledger could not even be asked.
        """
        try:
            await put_copy(self.store, record)
        except VitascopeError:
            await self._remove_copy(record)
            raise
        try:
            created = Accepted(await self.ledger.create(record), is_replay=False)
        except Conflict:
            created = Accepted(await self._find_twin(record), is_replay=True)
        except VitascopeError:
            created = Accepted(await self._find_created(record), is_replay=False)
        self.jobs.apply(created.stamped)
        return created

    async def _find_twin(self, record: JobRecord) -> Stamped:
        """The record that a request for the same made first."""
        stamped = await self.ledger.get(record.id)
        if stamped is None:
            raise VitascopeError(FailureCode.SERVICE_UNAVAILABLE, "The job was made and removed at once.")
        if stamped.record != record:  # it went on while we stored our copy, which says that it has just begun
            await keep_copy(self.ledger, self.store, stamped.record)
        return stamped

    async def _find_created(self, record: JobRecord) -> Stamped:
        """After a create whose answer did not come: the record if it is there, else the error.

        If the ledger cannot be asked, the copy stays: the client's next try finds out, if it names the same job.
        """
        stamped = await self.ledger.get(record.id)
        if stamped is None:
            await self._remove_copy(record)
            raise VitascopeError(FailureCode.BUS_UNAVAILABLE, "The record was not stored.")
        return stamped

    async def _remove_copy(self, record: JobRecord) -> None:
        """Take the copy back, unless another request may be making the same job: then the janitor sees to it."""
        if record.admission.idempotency_key is not None or record.retry_of is not None:
            return
        with suppress(VitascopeError):  # the store is away, which is what the caller is about to say
            await self.store.remove([record_key(record)])
