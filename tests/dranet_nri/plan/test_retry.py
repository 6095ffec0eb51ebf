"""Limit of restore tries, and their count."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import accumulate

import pytest

from dranet_nri.component.backoff import FIRST_DELAY_S, backoff_s
from dranet_nri.model import DETACH_FAILED, RESTORE_FAILED, Failure
from dranet_nri.plan.retry import (
    MAX_MESSAGE,
    MAX_RESTORE_TRIES,
    RestoreResult,
    has_tries_left,
    restore_failure,
)

NOW = 1_800_000_000
RESTORED = RestoreResult(restored=True, usable=True)
GONE = RestoreResult(restored=True, text="eth3 no longer exists")
NOT_RESTORED = RestoreResult(restored=False, text="move eth1: EBUSY")
WAITING = RestoreResult(restored=False)
ROUTELESS = RestoreResult(restored=False, text="add route: ENETUNREACH", usable=True)
RESTORED_IN_PART = RestoreResult(
    restored=True, text="add route: ENETUNREACH; restored", usable=True
)


@pytest.mark.parametrize(
    ("before", "tries_left"),
    [
        (None, True),
        (Failure(RESTORE_FAILED, "", NOW, MAX_RESTORE_TRIES - 1), True),
        (Failure(RESTORE_FAILED, "", NOW, MAX_RESTORE_TRIES), False),
        (Failure(DETACH_FAILED, "", NOW, MAX_RESTORE_TRIES), True),
        (Failure("NetworkDeviceAttachFailed", "", NOW, MAX_RESTORE_TRIES), True),
    ],
)
def test_restore_limit_counts_only_tries_with_rejected_operations(
    before: Failure | None, *, tries_left: bool
) -> None:
    assert has_tries_left(before) is tries_left


@pytest.mark.parametrize(
    ("returns", "reason"),
    [
        ((ROUTELESS,), RESTORE_FAILED),
        ((RESTORED_IN_PART,), RESTORE_FAILED),
        ((RESTORED, ROUTELESS), RESTORE_FAILED),
        ((NOT_RESTORED,), DETACH_FAILED),
        ((NOT_RESTORED, ROUTELESS), DETACH_FAILED),
        ((WAITING, ROUTELESS), DETACH_FAILED),
        ((GONE,), DETACH_FAILED),
    ],
)
def test_result_of_a_try_is_that_of_its_worst_device(
    returns: tuple[RestoreResult, ...], reason: str
) -> None:
    failure = restore_failure(returns, None, NOW)

    assert failure is not None
    assert failure.reason == reason


@pytest.mark.parametrize("before", [None, Failure(DETACH_FAILED, "busy", 1, 4)])
def test_record_is_unchanged_without_a_message(before: Failure | None) -> None:
    assert restore_failure((RESTORED, WAITING), before, NOW) == before


@pytest.mark.parametrize(
    ("before", "count"),
    [(RESTORE_FAILED, 5), (DETACH_FAILED, 1), ("NetworkDeviceAttachFailed", 1)],
)
def test_other_reason_restarts_the_count(before: str, count: int) -> None:
    failure = restore_failure((ROUTELESS,), Failure(before, "", 1, 4), NOW)

    assert failure == Failure(RESTORE_FAILED, ROUTELESS.text, NOW, count)


def tries(times: Iterable[int]) -> tuple[int, Failure]:
    """Try at these times until the limit; return the elapsed time and the recorded failure."""
    start, before = NOW, Failure(RESTORE_FAILED, ROUTELESS.text, NOW)
    for wall_s in times:
        failure = restore_failure((ROUTELESS,), before, wall_s)
        assert failure is not None
        before = failure
        if not has_tries_left(before):
            return wall_s - start, before
    pytest.fail("patience never ends")


@pytest.mark.parametrize("every", [1, 2, 7])
def test_frequent_tries_do_not_shorten_the_restore_limit(every: int) -> None:
    took_s, failure = tries(range(NOW, NOW + 1000, every))

    assert took_s >= 98
    assert failure.count == MAX_RESTORE_TRIES


def test_every_try_of_the_backoff_counts() -> None:
    pauses = [backoff_s(number, FIRST_DELAY_S, 60.0) for number in range(MAX_RESTORE_TRIES - 1)]

    took_s, failure = tries(int(at) for at in accumulate(pauses, initial=NOW + 0.9))

    assert failure.count == MAX_RESTORE_TRIES
    assert took_s == 103


def test_early_try_updates_the_message_but_not_count_and_time() -> None:
    before = Failure(RESTORE_FAILED, "add route: EBUSY", NOW, MAX_RESTORE_TRIES)

    assert restore_failure((RESTORED_IN_PART,), before, NOW + 50) == replace(
        before, message=RESTORED_IN_PART.text
    )
    assert restore_failure((RESTORED_IN_PART,), before, NOW + 102) == Failure(
        RESTORE_FAILED, RESTORED_IN_PART.text, NOW + 102, MAX_RESTORE_TRIES + 1
    )


@pytest.mark.parametrize("change_s", [-(10**9), 10**9])
def test_clock_change_counts_at_most_one_try(change_s: int) -> None:
    before = Failure(RESTORE_FAILED, ROUTELESS.text, NOW, 9)

    changed = restore_failure((ROUTELESS,), before, NOW + change_s)

    assert changed == replace(before, time=NOW + change_s, count=10)
    assert restore_failure((ROUTELESS,), changed, NOW + change_s + 1) == changed


def test_failed_moves_to_the_host_are_all_counted() -> None:
    before = Failure(DETACH_FAILED, NOT_RESTORED.text, NOW, 9)

    assert restore_failure((NOT_RESTORED,), before, NOW) == replace(before, count=10)


def test_messages_of_all_devices_fit_into_the_record() -> None:
    failure = restore_failure((NOT_RESTORED, RESTORED, ROUTELESS), None, NOW)
    long = restore_failure((RestoreResult(restored=False, text="x" * 3000),), None, NOW)

    assert failure is not None
    assert failure.message == f"{NOT_RESTORED.text}; {ROUTELESS.text}"
    assert long is not None
    assert len(long.message) == MAX_MESSAGE
