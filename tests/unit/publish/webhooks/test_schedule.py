"""Which delivery is tried next: fair, bounded, in order."""

from collections import Counter
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from records import NOW
from vitascope.contracts.deliveries import DeliveryPlace
from vitascope.publish.webhooks.schedule import MAX_LANE_OPEN, MAX_OPEN, MAX_TENANT_OPEN, Due, Schedule

SECOND = timedelta(seconds=1)
LATER = NOW + 60 * SECOND


def due(
    name: str,
    target: str = "wh_a",
    tenant: str = "acme",
    *,
    at: datetime = NOW,
    job: str | None = None,
    sequence: int = 0,
    tries: int = 0,
    is_replay: bool = False,
    revision: int = 1,
) -> Due:
    return Due(
        place=DeliveryPlace(tenant, target, name),
        lane=(tenant, target),
        job=job,
        sequence=sequence,
        due=at,
        tries=tries,
        is_replay=is_replay,
        revision=revision,
    )


def fill(*items: Due) -> Schedule:
    schedule = Schedule()
    for item in items:
        schedule.put(item)
    return schedule


def names(taken: list[Due]) -> list[str]:
    return [item.place.id for item in taken]


def test_nothing_is_tried_before_it_is_due() -> None:
    """And then the one that is due first."""
    schedule = fill(due("late", at=NOW + SECOND), due("now"), due("past", at=NOW - SECOND))
    assert ["past", "now"] == names(schedule.take(NOW))
    assert NOW + SECOND == schedule.find_next_due()
    assert ["late"] == names(schedule.take(NOW + SECOND))
    assert schedule.find_next_due() is None


def test_open_tries_are_not_started_twice() -> None:
    """Not even when their delivery is announced again."""
    schedule = fill(due("a"))
    assert ["a"] == names(schedule.take(NOW))
    schedule.put(due("a"))
    schedule.put(due("a", revision=2))
    assert [] == schedule.take(LATER)
    schedule.release(due("a").place, is_answering=False)
    assert ["a"] == names(schedule.take(LATER))


def test_failed_delivery_comes_again_when_it_is_due() -> None:
    """At the time of its newest state."""
    schedule = fill(due("a"))
    schedule.take(NOW)
    schedule.put(due("a", at=LATER, tries=1, revision=2))
    schedule.release(due("a").place, is_answering=False)
    assert [] == schedule.take(LATER - SECOND)
    assert ["a"] == names(schedule.take(LATER))


def test_delivery_that_was_put_off_is_not_tried_early() -> None:
    """Though its old time has come."""
    schedule = fill(due("a", at=NOW + SECOND))
    schedule.put(due("a", at=LATER, revision=2))
    assert [] == schedule.take(NOW + 2 * SECOND)
    assert ["a"] == names(schedule.take(LATER))


def test_old_news_change_nothing() -> None:
    """A feed may bring what is known already."""
    schedule = fill(due("a", at=LATER, revision=5))
    schedule.put(due("a", at=NOW, revision=4))
    assert [] == schedule.take(NOW)


def test_removed_delivery_is_not_tried() -> None:
    """Waiting, ready or open; and it can come back."""
    schedule = fill(due("a"), due("b", at=LATER))
    schedule.take(NOW)
    for name in "ab":
        schedule.remove(due(name).place)
        schedule.remove(due(name).place)
    schedule.release(due("a").place, is_answering=True)
    assert (0, []) == (len(schedule), schedule.take(LATER))
    schedule.put(due("b", at=LATER, revision=7))
    assert ["b"] == names(schedule.take(LATER))


def test_lane_has_few_open_and_one_after_a_failure() -> None:
    """A receiver that does not answer gets one try at a time, until it answers."""
    schedule = fill(*(due(str(number)) for number in range(20)))
    assert MAX_LANE_OPEN == len(schedule.take(NOW))
    first = [due(str(number)).place for number in range(MAX_LANE_OPEN)]
    for place in first:
        schedule.remove(place)
        schedule.release(place, is_answering=False)
    alone = schedule.take(NOW)
    assert ["4"] == names(alone)
    assert [] == schedule.take(NOW)
    schedule.remove(alone[0].place)
    schedule.release(alone[0].place, is_answering=True)
    assert MAX_LANE_OPEN == len(schedule.take(NOW))


def test_a_slow_receiver_delays_nobody_else() -> None:
    """A thousand deliveries before one of another's: that one goes at once."""
    slow = [due(str(number), "wh_slow") for number in range(1000)]
    schedule = fill(*slow, due("x", "wh_fast"))
    assert "x" in names(schedule.take(NOW))


def test_one_tenant_does_not_take_all() -> None:
    """However many of its receivers are slow, another's is served in the same turn."""
    greedy = [due(str(number), f"wh_{number}") for number in range(1000)]
    taken = fill(*greedy, due("x", "wh_x", "modest")).take(NOW)
    assert {"acme": MAX_TENANT_OPEN, "modest": 1} == Counter(item.place.tenant for item in taken)


def test_all_open_tries_are_bounded() -> None:
    """And whoever was left out is served next."""
    items = [due("x", tenant=f"t{number}") for number in range(2 * MAX_OPEN)]
    schedule = fill(*items)
    first = schedule.take(NOW)
    assert MAX_OPEN == len(first)
    for item in first:
        schedule.remove(item.place)
        schedule.release(item.place, is_answering=True)
    assert {item.place for item in items} == {item.place for item in first + schedule.take(NOW)}


def test_states_of_a_job_go_one_after_the_other() -> None:
    """So that they arrive in their order; other jobs of the lane do not wait."""
    schedule = fill(*(due(f"a{number}", job="a", sequence=number) for number in range(3)), due("b0", job="b"))
    first = schedule.take(NOW)
    assert ["a0", "b0"] == sorted(names(first))
    schedule.remove(due("a0").place)
    schedule.release(due("a0").place, is_answering=True)
    assert ["a1"] == names(schedule.take(NOW))


def test_newer_state_overtakes_what_had_failed() -> None:
    """And nothing else: not what was never tried, what is being tried, what is replayed, or belongs to others."""
    failed = due("failed", job="a", sequence=1, tries=2, at=LATER)
    schedule = fill(
        failed,
        due("fresh", job="a", sequence=1, at=LATER),
        due("replayed", job="a", sequence=1, tries=2, is_replay=True, at=LATER),
        due("elsewhere", "wh_b", job="a", sequence=1, tries=2, at=LATER),
        due("other", job="b", sequence=1, tries=2, at=LATER),
        due("open", job="a", sequence=1, tries=2),
    )
    schedule.take(NOW)
    newer = due("newer", job="a", sequence=2)
    schedule.put(newer)
    assert [failed.place] == schedule.find_overtaken(newer)
    overtaken = {name for name in ("failed", "open", "newer") if schedule.is_overtaken(due(name).place)}
    assert {"failed", "open"} == overtaken


def test_pending_ones_are_counted_by_target() -> None:
    """Those that are open are pending, too."""
    schedule = fill(due("a"), due("b", at=LATER), due("c", "wh_b"))
    schedule.take(NOW)
    assert (2, 1, 0) == tuple(schedule.count("acme", target) for target in ("wh_a", "wh_b", "wh_c"))
    schedule.remove(due("a").place)
    assert 1 == schedule.count("acme", "wh_a")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 4), st.booleans()), max_size=60))
def test_every_delivery_is_tried_in_the_end(rows: list[tuple[int, int, int, bool]]) -> None:
    """Whatever answers and fails: each is tried, never two of one job at once, never more than a lane takes."""
    items = [
        due(f"d{index}", f"wh_{target}", f"t{tenant}", job=f"j{job}", sequence=index)
        for index, (tenant, target, job, _) in enumerate(rows)
    ]
    works = {item.place: rows[index][3] for index, item in enumerate(items)}
    schedule, tried = fill(*items), set[DeliveryPlace]()
    for turn in range(1, 4 * len(rows) + 2):
        taken = schedule.take(NOW + turn * SECOND)
        jobs = [(item.lane, item.job) for item in taken]
        assert len(jobs) == len(set(jobs))
        assert all(count <= MAX_LANE_OPEN for count in Counter(item.lane for item in taken).values())
        for item in taken:
            tried.add(item.place)
            if works[item.place] or item.tries:
                schedule.remove(item.place)
            else:
                again = {"tries": 1, "due": NOW + turn * SECOND, "revision": 2}
                schedule.put(Due(**{**vars(item), **again}))
            schedule.release(item.place, is_answering=works[item.place])
    assert (set(works), 0) == (tried, len(schedule))
    assert not schedule._lanes, "a lane without deliveries is forgotten"
