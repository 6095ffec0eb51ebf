"""The time of the next pass: debounce, rate limit, and backoff after foreign writes."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_shim.resourceslice.schedule import DEBOUNCE_S, MIN_INTERVAL_S, REPAIR_S, SyncSchedule


@pytest.fixture
def schedule() -> SyncSchedule:
    """Return one without chance."""
    return SyncSchedule(lambda: 1.0)


def test_idle_schedule_has_nothing_due(schedule: SyncSchedule) -> None:
    assert schedule.due == inf
    schedule.begin()
    schedule.ended(100.0, 0)
    assert schedule.due == inf


def test_requested_check_is_due_once_at_its_time(schedule: SyncSchedule) -> None:
    schedule.again(500.0)
    assert schedule.due == 500.0
    schedule.changed(100.0)
    assert schedule.due == 100.0 + DEBOUNCE_S

    schedule.begin()
    schedule.ended(100.0, 0)
    assert schedule.due == inf


def test_changes_are_batched_for_a_moment(schedule: SyncSchedule) -> None:
    schedule.changed(100.0)
    schedule.changed(100.1)

    assert schedule.due == 100.0 + DEBOUNCE_S


def test_pass_handles_only_earlier_changes(schedule: SyncSchedule) -> None:
    schedule.changed(100.0)
    schedule.drift(100.0, found=True)
    schedule.begin()
    assert schedule.due == inf

    schedule.changed(101.0)
    schedule.ended(102.0, 0)
    assert schedule.due == 102.0


@pytest.mark.parametrize("writes", [0, 1, 4])
def test_write_starts_a_delay(schedule: SyncSchedule, writes: int) -> None:
    schedule.begin()
    schedule.ended(100.0, writes)
    schedule.changed(100.0)

    assert schedule.due == 100.0 + max(DEBOUNCE_S, writes * MIN_INTERVAL_S)


def test_ended_delay_has_no_effect(schedule: SyncSchedule) -> None:
    schedule.begin()
    schedule.ended(100.0, 1)
    schedule.changed(200.0)

    assert schedule.due == 200.0 + DEBOUNCE_S


def test_changes_by_others_are_repaired_with_a_delay(schedule: SyncSchedule) -> None:
    schedule.drift(100.0, found=True)
    schedule.drift(110.0, found=True)

    assert schedule.due == 100.0 + REPAIR_S


def test_change_that_was_reverted_is_not_repaired(schedule: SyncSchedule) -> None:
    schedule.drift(100.0, found=True)
    schedule.drift(110.0, found=False)

    assert schedule.due == inf


def test_own_change_repairs_changes_by_others(schedule: SyncSchedule) -> None:
    schedule.drift(100.0, found=True)
    schedule.changed(101.0)

    assert schedule.due == 101.0 + DEBOUNCE_S


def test_transient_errors_are_retried_with_back_off(schedule: SyncSchedule) -> None:
    pauses = []
    for _ in range(9):
        schedule.begin()
        pauses.append(schedule.failed(100.0, 0, lasting=False))

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert schedule.due == 130.0


def test_refusals_are_retried_with_a_longer_back_off(schedule: SyncSchedule) -> None:
    pauses = [schedule.failed(100.0, 0, lasting=True) for _ in range(8)]

    assert pauses == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]


def test_change_does_not_shorten_the_back_off(schedule: SyncSchedule) -> None:
    schedule.begin()
    schedule.failed(100.0, 0, lasting=True)
    schedule.changed(100.0)
    schedule.drift(60.0, found=True)

    assert schedule.due == 105.0


def test_retry_after_is_respected(schedule: SyncSchedule) -> None:
    assert schedule.failed(100.0, 0, lasting=False, after_s=17.0) == 17.0


def test_writes_of_a_failed_pass_start_a_delay(schedule: SyncSchedule) -> None:
    assert schedule.failed(100.0, 3, lasting=False) == 3 * MIN_INTERVAL_S


def test_success_resets_the_back_off(schedule: SyncSchedule) -> None:
    for _ in range(5):
        schedule.failed(100.0, 0, lasting=False)
    schedule.begin()
    schedule.ended(200.0, 0)
    schedule.changed(200.0)

    assert schedule.due == 200.0 + DEBOUNCE_S
    assert schedule.failed(201.0, 0, lasting=False) == 0.5


def test_back_off_has_random_jitter() -> None:
    assert SyncSchedule(lambda: 0.0).failed(0.0, 0, lasting=False) == 0.25


@given(st.lists(st.tuples(st.floats(0.0, 3.0), st.integers(0, 5), st.booleans()), max_size=80))
def test_flapping_causes_at_most_12_writes_a_minute(
    storm: list[tuple[float, int, bool]],
) -> None:
    schedule = SyncSchedule(lambda: 0.0)
    now, written = 0.0, []
    for step_s, writes, fails in storm:
        now += step_s
        schedule.changed(now)
        schedule.drift(now, found=True)
        now = max(now, schedule.due)
        schedule.begin()
        written += [now] * writes
        if fails:
            schedule.failed(now, writes, lasting=False)
        else:
            schedule.ended(now, writes)

    for start in written:
        assert sum(start <= entry < start + 60 for entry in written) <= 12 + 5
