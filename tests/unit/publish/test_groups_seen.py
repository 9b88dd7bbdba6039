"""Which groups are gone, and when it is too early to tell."""

from datetime import timedelta

from records import NOW
from vitascope.publish.groups_seen import GAP, SILENCE, GroupsSeen

A, B = ("default", "a"), ("default", "b")
STEP = GAP / 2


def _listen(groups: GroupsSeen, steps: int, *there: tuple[str, str], start: int = 0) -> int:
    """Look so often at what is there; gives the step after the last."""
    for step in range(start, start + steps):
        groups.note(there, NOW + step * STEP)
    return start + steps


def test_a_group_is_gone_after_a_time_of_silence() -> None:
    """Not before somebody has listened for as long, and as soon as it has been silent for as long."""
    groups, looks = GroupsSeen(), int(SILENCE / STEP)
    assert groups.list_kept(NOW) is None
    at = _listen(groups, looks, A, B)
    assert groups.list_kept(NOW + (at - 1) * STEP) is None
    at = _listen(groups, 1, A, start=at)
    assert {A, B} == groups.list_kept(NOW + (at - 1) * STEP)
    at = _listen(groups, looks, A, start=at)
    assert {A} == groups.list_kept(NOW + (at - 1) * STEP)


def test_after_an_outage_the_silence_begins_anew() -> None:
    """All rows have vanished meanwhile; that says nothing about the groups."""
    groups, looks = GroupsSeen(), int(SILENCE / STEP) + 1
    at = _listen(groups, looks, A)
    groups.interrupt()
    assert groups.list_kept(NOW + at * STEP) is None
    at = _listen(groups, 1, start=at)
    assert groups.list_kept(NOW + (at - 1) * STEP) is None


def test_who_has_not_listened_knows_nothing() -> None:
    """A long round, or a clock that jumped either way, counts as an outage."""
    for jump in (SILENCE, timedelta(days=-1)):
        groups, looks = GroupsSeen(), int(SILENCE / STEP) + 1
        at = NOW + (_listen(groups, looks, A) - 1) * STEP + jump
        groups.note([], at)
        assert groups.list_kept(at) is None
