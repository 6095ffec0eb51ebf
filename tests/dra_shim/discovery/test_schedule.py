"""Times of scans: soon after events, periodically without events, with back-off after failures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_shim.discovery.schedule import (
    DEBOUNCE_S,
    FIRST_PAUSE_S,
    LONGEST_PAUSE_S,
    MAX_DELAY_S,
    RECORDS_S,
    ScanSchedule,
)

RESCAN_S = 60.0


@pytest.fixture
def schedule() -> ScanSchedule:
    """Return a schedule that has just finished a full scan."""
    made = ScanSchedule(RESCAN_S)
    assert made.begin(100.0)
    made.ended(100.0, full=True)
    return made


def test_first_scan_is_full_and_due_at_once() -> None:
    made = ScanSchedule(RESCAN_S)

    assert made.due < 0
    assert made.begin(0.0)


def test_full_scan_is_due_after_the_interval_without_events(schedule: ScanSchedule) -> None:
    assert schedule.due == 100.0 + RESCAN_S
    assert schedule.begin(100.0 + RESCAN_S)


def test_scan_is_due_after_a_quiet_period(schedule: ScanSchedule) -> None:
    schedule.request(101.0)
    schedule.request(101.1)

    assert schedule.due == 101.1 + DEBOUNCE_S
    assert not schedule.begin(101.1 + DEBOUNCE_S)


def test_continuous_events_delay_the_scan_up_to_the_limit(schedule: ScanSchedule) -> None:
    for step in range(100):
        schedule.request(101.0 + step * DEBOUNCE_S / 2)

    assert schedule.due == 101.0 + MAX_DELAY_S


def test_scan_after_a_change_of_records_is_due_later(schedule: ScanSchedule) -> None:
    schedule.request_later(101.0)
    schedule.request_later(102.0)
    assert schedule.due == 101.0 + RECORDS_S

    schedule.request(102.5)
    assert schedule.due == 102.5 + DEBOUNCE_S
    assert not schedule.begin(102.5 + DEBOUNCE_S)
    schedule.ended(102.8, full=False)
    assert schedule.due == 100.0 + RESCAN_S


def test_scan_covers_only_requests_made_before_it_began(schedule: ScanSchedule) -> None:
    schedule.request(101.0)
    schedule.begin(101.2)
    schedule.request(101.3)
    schedule.ended(101.4, full=False)

    assert schedule.due == 101.3 + DEBOUNCE_S


def test_events_do_not_delay_the_full_scan(schedule: ScanSchedule) -> None:
    for number in range(50):
        schedule.request(101.0 + number)
        schedule.begin(101.5 + number)
        schedule.ended(101.5 + number, full=False)

    assert schedule.due == 100.0 + RESCAN_S


def test_failed_scan_is_retried_as_a_full_scan_with_exponential_back_off(
    schedule: ScanSchedule,
) -> None:
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


def test_request_made_during_back_off_is_kept_after_another_scan(
    schedule: ScanSchedule,
) -> None:
    schedule.begin(101.0)
    schedule.failed(101.0)
    schedule.request(101.1)
    assert not schedule.begin(101.2)
    schedule.request(101.3)
    schedule.ended(101.4, full=True)

    assert schedule.due == 101.3 + DEBOUNCE_S


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_no_request_waits_longer_than_the_limit(steps: list[float]) -> None:
    schedule = ScanSchedule(RESCAN_S)
    schedule.begin(0.0)
    schedule.ended(0.0, full=True)
    now, first = 0.0, 0.0
    for step in steps:
        now += step
        if schedule.due <= now:
            assert schedule.due <= first + MAX_DELAY_S
            full = schedule.begin(now)
            schedule.ended(now, full=full)
            first = now
        else:
            first = first or now
        schedule.request(now)
