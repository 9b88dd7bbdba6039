"""By which time things are old, and under which ledger they were made."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from unit.publish.kept import DAY, HOUR, Kept
from vitascope.contracts.failures import FailureCode, VitascopeError
from vitascope.publish.epoch import SKEW, Epoch, read_epoch, read_sure_epoch


@dataclass
class Fixed:
    """A clock that says what it is told."""

    at: datetime

    def now(self) -> datetime:
        return self.at


async def test_our_clock_ahead_makes_nothing_old(kept: Kept) -> None:
    """A process whose clock has jumped by a month goes by the store's."""
    epoch = await read_sure_epoch(kept.ledger, kept.store, Fixed(kept.time.now() + 30 * DAY))
    assert kept.time.now() == epoch.now


async def test_the_stores_clock_ahead_makes_nothing_old(kept: Kept) -> None:
    """And the other way round."""
    epoch = await read_sure_epoch(kept.ledger, kept.store, Fixed(kept.time.now() - HOUR))
    assert kept.time.now() - HOUR == epoch.now


async def test_a_ledger_is_complete_once_the_mark_is_its_own(kept: Kept) -> None:
    """Not after a loss, until it has been rebuilt."""
    assert (await read_epoch(kept.ledger, kept.store, kept.time)).is_complete
    kept.broker.lose()
    assert not (await read_epoch(kept.ledger, kept.store, kept.time)).is_complete
    await kept.complete()
    assert (await read_epoch(kept.ledger, kept.store, kept.time)).is_complete


async def test_a_look_changes_nothing(kept: Kept) -> None:
    """`doctor` may look at any service."""
    before = dict(kept.store.objects)
    await read_epoch(kept.ledger, kept.store, kept.time)
    assert before == kept.store.objects


@pytest.mark.parametrize("part", ["bus", "store"])
async def test_without_a_server_there_is_no_epoch(kept: Kept, part: str) -> None:
    """So nothing is judged."""
    kept.broker.set_connected(connected=part != "bus")
    kept.store.is_away = part == "store"
    with pytest.raises(VitascopeError) as caught:
        await read_sure_epoch(kept.ledger, kept.store, kept.time)
    assert {"bus": FailureCode.BUS_UNAVAILABLE, "store": FailureCode.STORE_UNAVAILABLE}[part] == caught.value.code


def test_what_is_ours_is_certainly_younger_than_the_ledger() -> None:
    """Clocks differ, so the first moments are nobody's."""
    birth = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    epoch = Epoch(birth + DAY, birth, is_complete=True)
    marks = [birth - DAY, birth, birth + SKEW, birth + SKEW + timedelta(seconds=1)]
    assert [False, False, False, True] == [epoch.is_ours(made) for made in marks]
