"""The time of the next pass: debounce, rate limit, and backoff after foreign writes."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_shim.resourceslice.schedule import GATHER_S, REPAIR_S, REST_S, SyncSchedule


@pytest.fixture
def pace() -> SyncSchedule:
    """Return one without chance."""
    return SyncSchedule(lambda: 1.0)


def test_idle_schedule_has_nothing_due(pace: SyncSchedule) -> None:
    assert pace.due == inf
    pace.begin()
    pace.ended(100.0, 0)
    assert pace.due == inf


def test_requested_check_is_due_once_at_its_time(pace: SyncSchedule) -> None:
    pace.again(500.0)
    assert pace.due == 500.0
    pace.changed(100.0)
    assert pace.due == 100.0 + GATHER_S

    pace.begin()
    pace.ended(100.0, 0)
    assert pace.due == inf


def test_changes_are_batched_for_a_moment(pace: SyncSchedule) -> None:
    pace.changed(100.0)
    pace.changed(100.1)

    assert pace.due == 100.0 + GATHER_S


def test_pass_handles_only_earlier_changes(pace: SyncSchedule) -> None:
    pace.changed(100.0)
    pace.drift(100.0, found=True)
    pace.begin()
    assert pace.due == inf

    pace.changed(101.0)
    pace.ended(102.0, 0)
    assert pace.due == 102.0


@pytest.mark.parametrize("writes", [0, 1, 4])
def test_write_starts_a_delay(pace: SyncSchedule, writes: int) -> None:
    pace.begin()
    pace.ended(100.0, writes)
    pace.changed(100.0)

    assert pace.due == 100.0 + max(GATHER_S, writes * REST_S)


def test_ended_delay_has_no_effect(pace: SyncSchedule) -> None:
    pace.begin()
    pace.ended(100.0, 1)
    pace.changed(200.0)

    assert pace.due == 200.0 + GATHER_S


def test_changes_by_others_are_repaired_with_a_delay(pace: SyncSchedule) -> None:
    pace.drift(100.0, found=True)
    pace.drift(110.0, found=True)

    assert pace.due == 100.0 + REPAIR_S


def test_change_that_was_reverted_is_not_repaired(pace: SyncSchedule) -> None:
    pace.drift(100.0, found=True)
    pace.drift(110.0, found=False)

    assert pace.due == inf


def test_own_change_repairs_changes_by_others(pace: SyncSchedule) -> None:
    pace.drift(100.0, found=True)
    pace.changed(101.0)

    assert pace.due == 101.0 + GATHER_S


def test_transient_errors_are_retried_with_back_off(pace: SyncSchedule) -> None:
    pauses = []
    for _ in range(9):
        pace.begin()
        pauses.append(pace.failed(100.0, 0, lasting=False))

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    assert pace.due == 130.0


def test_refusals_are_retried_with_a_longer_back_off(pace: SyncSchedule) -> None:
    pauses = [pace.failed(100.0, 0, lasting=True) for _ in range(8)]

    assert pauses == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0]


def test_change_does_not_shorten_the_back_off(pace: SyncSchedule) -> None:
    pace.begin()
    pace.failed(100.0, 0, lasting=True)
    pace.changed(100.0)
    pace.drift(60.0, found=True)

    assert pace.due == 105.0


def test_retry_after_is_respected(pace: SyncSchedule) -> None:
    assert pace.failed(100.0, 0, lasting=False, after_s=17.0) == 17.0


def test_writes_of_a_failed_pass_start_a_delay(pace: SyncSchedule) -> None:
    assert pace.failed(100.0, 3, lasting=False) == 3 * REST_S


def test_success_resets_the_back_off(pace: SyncSchedule) -> None:
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
def test_flapping_causes_at_most_12_writes_a_minute(
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
