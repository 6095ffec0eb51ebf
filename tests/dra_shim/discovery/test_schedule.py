"""When the node is looked at: soon after news, now and then without, later after trouble."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_shim.discovery.schedule import (
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    LONGEST_S,
    QUIET_S,
    ScanSchedule,
)

RESCAN_S = 60.0


@pytest.fixture
def schedule() -> ScanSchedule:
    """Return one that has just looked at everything."""
    made = ScanSchedule(RESCAN_S)
    assert made.begin(100.0)
    made.ended(100.0, full=True)
    return made


def test_the_first_look_is_due_at_once_and_at_everything() -> None:
    made = ScanSchedule(RESCAN_S)

    assert made.due < 0
    assert made.begin(0.0)


def test_everything_is_looked_at_again_without_news(schedule: ScanSchedule) -> None:
    assert schedule.due == 100.0 + RESCAN_S
    assert schedule.begin(100.0 + RESCAN_S)


def test_news_wait_for_a_moment_without_any(schedule: ScanSchedule) -> None:
    schedule.request(101.0)
    schedule.request(101.1)

    assert schedule.due == 101.1 + QUIET_S
    assert not schedule.begin(101.1 + QUIET_S)


def test_news_that_never_end_do_not_wait_for_long(schedule: ScanSchedule) -> None:
    for step in range(100):
        schedule.request(101.0 + step * QUIET_S / 2)

    assert schedule.due == 101.0 + LONGEST_S


def test_a_look_takes_in_what_was_heard_before_it_and_nothing_after(schedule: ScanSchedule) -> None:
    schedule.request(101.0)
    schedule.begin(101.2)
    schedule.request(101.3)
    schedule.ended(101.4, full=False)

    assert schedule.due == 101.3 + QUIET_S


def test_news_do_not_put_off_the_look_at_everything(schedule: ScanSchedule) -> None:
    for number in range(50):
        schedule.request(101.0 + number)
        schedule.begin(101.5 + number)
        schedule.ended(101.5 + number, full=False)

    assert schedule.due == 100.0 + RESCAN_S


def test_trouble_is_tried_again_ever_more_rarely_and_at_everything(schedule: ScanSchedule) -> None:
    pauses = []
    now = 101.0
    for _ in range(30):
        schedule.request(now)
        schedule.begin(now)
        pauses.append(schedule.failed(now))
        schedule.request(now)
        assert schedule.due == now + pauses[-1]
        now = schedule.due

    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S
    assert schedule.begin(now)


def test_what_was_heard_in_trouble_is_not_forgotten_when_somebody_else_looks(
    schedule: ScanSchedule,
) -> None:
    schedule.begin(101.0)
    schedule.failed(101.0)
    schedule.request(101.1)
    assert not schedule.begin(101.2)
    schedule.request(101.3)
    schedule.ended(101.4, full=True)

    assert schedule.due == 101.3 + QUIET_S


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_no_news_wait_longer_than_they_may(steps: list[float]) -> None:
    schedule = ScanSchedule(RESCAN_S)
    schedule.begin(0.0)
    schedule.ended(0.0, full=True)
    now, first = 0.0, 0.0
    for step in steps:
        now += step
        if schedule.due <= now:
            assert schedule.due <= first + LONGEST_S
            full = schedule.begin(now)
            schedule.ended(now, full=full)
            first = now
        else:
            first = first or now
        schedule.request(now)
