"""When the next pass is due: soon after news, seldom in a storm, later for what others did."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_shim.resourceslice.schedule import GATHER_S, REPAIR_S, REST_S, SyncSchedule


@pytest.fixture
def pace() -> SyncSchedule:
    """Return one without chance."""
    return SyncSchedule(lambda: 1.0)


def test_nothing_is_due_while_nothing_happens(pace: SyncSchedule) -> None:
    assert pace.due == inf
    pace.begin()
    pace.ended(100.0, 0)
    assert pace.due == inf


def test_what_is_to_be_looked_at_again_is_due_then_and_once(pace: SyncSchedule) -> None:
    pace.again(500.0)
    assert pace.due == 500.0
    pace.changed(100.0)
    assert pace.due == 100.0 + GATHER_S

    pace.begin()
    pace.ended(100.0, 0)
    assert pace.due == inf


def test_news_are_gathered_for_a_moment(pace: SyncSchedule) -> None:
    pace.changed(100.0)
    pace.changed(100.1)

    assert pace.due == 100.0 + GATHER_S


def test_a_pass_takes_in_what_was_said_before_it_and_nothing_after(pace: SyncSchedule) -> None:
    pace.changed(100.0)
    pace.drift(100.0, found=True)
    pace.begin()
    assert pace.due == inf

    pace.changed(101.0)
    pace.ended(102.0, 0)
    assert pace.due == 102.0


@pytest.mark.parametrize("writes", [0, 1, 4])
def test_each_write_buys_a_rest(pace: SyncSchedule, writes: int) -> None:
    pace.begin()
    pace.ended(100.0, writes)
    pace.changed(100.0)

    assert pace.due == 100.0 + max(GATHER_S, writes * REST_S)


def test_a_rest_that_is_over_delays_nothing(pace: SyncSchedule) -> None:
    pace.begin()
    pace.ended(100.0, 1)
    pace.changed(200.0)

    assert pace.due == 200.0 + GATHER_S


def test_what_others_did_is_repaired_later(pace: SyncSchedule) -> None:
    pace.drift(100.0, found=True)
    pace.drift(110.0, found=True)

    assert pace.due == 100.0 + REPAIR_S


def test_what_came_right_by_itself_is_not_repaired(pace: SyncSchedule) -> None:
    pace.drift(100.0, found=True)
    pace.drift(110.0, found=False)

    assert pace.due == inf


def test_news_repair_as_well(pace: SyncSchedule) -> None:
    pace.drift(100.0, found=True)
    pace.changed(101.0)

    assert pace.due == 101.0 + GATHER_S


def test_trouble_that_may_pass_is_tried_again_ever_more_rarely(pace: SyncSchedule) -> None:
    pauses = []
    for _ in range(9):
        pace.begin()
        pauses.append(pace.failed(100.0, 0, lasting=False))

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert pace.due == 130.0


def test_a_refusal_is_tried_again_more_rarely_still(pace: SyncSchedule) -> None:
    pauses = [pace.failed(100.0, 0, lasting=True) for _ in range(8)]

    assert pauses == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]


def test_news_do_not_hurry_what_fails(pace: SyncSchedule) -> None:
    pace.begin()
    pace.failed(100.0, 0, lasting=True)
    pace.changed(100.0)
    pace.drift(60.0, found=True)

    assert pace.due == 105.0


def test_retry_after_of_the_server_is_respected(pace: SyncSchedule) -> None:
    assert pace.failed(100.0, 0, lasting=False, after_s=17.0) == 17.0


def test_writes_of_a_pass_that_failed_buy_a_rest_too(pace: SyncSchedule) -> None:
    assert pace.failed(100.0, 3, lasting=False) == 3 * REST_S


def test_success_forgets_the_trouble(pace: SyncSchedule) -> None:
    for _ in range(5):
        pace.failed(100.0, 0, lasting=False)
    pace.begin()
    pace.ended(200.0, 0)
    pace.changed(200.0)

    assert pace.due == 200.0 + GATHER_S
    assert pace.failed(201.0, 0, lasting=False) == 0.5


def test_back_off_has_random_jitter() -> None:
    assert SyncSchedule(lambda: 0.0).failed(0.0, 0, lasting=False) == 0.25


@given(st.lists(st.tuples(st.floats(0.0, 3.0), st.integers(0, 5), st.booleans()), max_size=80))
def test_however_things_flap_there_are_12_writes_a_minute_at_most(
    storm: list[tuple[float, int, bool]],
) -> None:
    pace = SyncSchedule(lambda: 0.0)
    now, written = 0.0, []
    for step_s, writes, fails in storm:
        now += step_s
        pace.changed(now)
        pace.drift(now, found=True)
        now = max(now, pace.due)
        pace.begin()
        written += [now] * writes
        if fails:
            pace.failed(now, writes, lasting=False)
        else:
            pace.ended(now, writes)

    for start in written:
        assert sum(start <= entry < start + 60 for entry in written) <= 12 + 5
