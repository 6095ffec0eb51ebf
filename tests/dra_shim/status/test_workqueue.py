"""The work queue of claims: order and time of the writes."""

from math import inf

import pytest

from dra_shim.status.conditions import DeviceStatus
from dra_shim.status.workqueue import (
    FIRST_LASTING_S,
    FIRST_PAUSE_S,
    LONGEST_LASTING_S,
    LONGEST_PAUSE_S,
    MIN_INTERVAL_S,
    ClaimQueue,
)
from dranet_nri.model import ObjectRef

A, B = ObjectRef("ai", "a", "uid-a"), ObjectRef("ai", "b", "uid-b")
FIRST, SECOND = ((DeviceStatus("node-a", name, "", ()),) for name in ("nic-0", "nic-1"))


@pytest.fixture
def queue() -> ClaimQueue:
    """Return one whose pauses are as long as can be."""
    return ClaimQueue(lambda: 1.0)


def test_empty_queue_has_nothing_due(queue: ClaimQueue) -> None:
    assert queue.due == inf


def test_earliest_claim_is_first(queue: ClaimQueue) -> None:
    queue.enqueue(A, FIRST, 10.0, 5.0)
    queue.enqueue(B, FIRST, 11.0, 0.2)

    assert queue.due == 11.2
    assert queue.begin().claim == B
    assert queue.due == 15.0
    assert queue.begin().claim == A
    assert queue.due == inf


def test_repeated_desired_state_changes_nothing(queue: ClaimQueue) -> None:
    queue.enqueue(A, FIRST, 10.0, 0.2)
    queue.enqueue(A, FIRST, 10.1, 0.2)

    assert queue.due == 10.2


def test_last_desired_state_wins(queue: ClaimQueue) -> None:
    queue.enqueue(A, FIRST, 10.0, 5.0)
    queue.enqueue(A, SECOND, 11.0, 0.2)

    assert queue.due == 11.2
    assert queue.begin().devices == SECOND


def test_write_starts_a_delay(queue: ClaimQueue) -> None:
    queue.enqueue(A, FIRST, 10.0, 0.0)
    queue.done(queue.begin(), 10.0, wrote=True)

    queue.enqueue(A, SECOND, 11.0, 0.2)

    assert queue.due == 10.0 + MIN_INTERVAL_S


def test_unneeded_write_starts_no_delay(queue: ClaimQueue) -> None:
    queue.enqueue(A, FIRST, 10.0, 0.0)
    queue.done(queue.begin(), 10.0, wrote=False)

    queue.enqueue(A, SECOND, 11.0, 0.2)

    assert queue.due == 11.2


def test_change_during_a_write_is_written_next(queue: ClaimQueue) -> None:
    queue.enqueue(A, FIRST, 10.0, 0.0)
    job = queue.begin()
    queue.enqueue(A, SECOND, 10.0, 0.2)
    queue.done(job, 10.5, wrote=True)

    assert queue.due == 10.5 + MIN_INTERVAL_S
    assert queue.begin().devices == SECOND


def test_withdrawn_claim_leaves_the_queue(queue: ClaimQueue) -> None:
    queue.enqueue(A, (), 10.0, 0.0)
    queue.done(queue.begin(), 10.0, wrote=True)

    queue.enqueue(A, (), 11.0, 0.2)

    assert queue.due == 11.2, "it is new to the agenda"


def test_claim_added_during_its_withdrawal_stays(queue: ClaimQueue) -> None:
    queue.enqueue(A, (), 10.0, 0.0)
    job = queue.begin()
    queue.enqueue(A, FIRST, 10.0, 0.2)
    queue.done(job, 10.5, wrote=True)

    assert queue.begin().devices == FIRST


def test_deleted_claim_leaves_the_queue(queue: ClaimQueue) -> None:
    queue.enqueue(A, FIRST, 10.0, 0.0)
    job = queue.begin()
    queue.enqueue(A, SECOND, 10.0, 0.2)
    queue.forget(job)
    queue.forget(job)

    assert queue.due == inf


@pytest.mark.parametrize(
    ("lasting", "first_s", "longest_s"),
    [(False, FIRST_PAUSE_S, LONGEST_PAUSE_S), (True, FIRST_LASTING_S, LONGEST_LASTING_S)],
)
def test_delay_of_a_failing_claim_grows(
    queue: ClaimQueue,
    lasting: bool,  # noqa: FBT001
    first_s: float,
    longest_s: float,
) -> None:
    queue.enqueue(A, FIRST, 0.0, 0.0)
    queue.enqueue(B, FIRST, 0.0, 7.0)
    job, pauses = queue.begin(), []
    for _ in range(20):
        pauses.append(queue.claim_failed(job, 10.0, lasting=lasting))
        assert queue.due == 7.0, "the other claim is not delayed"
        queue.postpone(job, 0.0)  # as if the time had passed
        assert queue.begin() is job

    assert pauses[:3] == [first_s, 2 * first_s, 4 * first_s]
    assert pauses[-1] == longest_s
    assert queue.due == 7.0


def test_change_does_not_shorten_the_delay_of_a_failing_claim(queue: ClaimQueue) -> None:
    queue.enqueue(A, FIRST, 0.0, 0.0)
    queue.claim_failed(queue.begin(), 10.0, lasting=True)
    queue.enqueue(A, SECOND, 11.0, 0.2)

    assert queue.due == 10.0 + FIRST_LASTING_S


def test_successful_write_resets_the_delay(queue: ClaimQueue) -> None:
    queue.enqueue(A, FIRST, 0.0, 0.0)
    queue.claim_failed(queue.begin(), 10.0, lasting=True)
    job = queue.begin()
    queue.done(job, 20.0, wrote=True)

    assert queue.claim_failed(job, 30.0, lasting=True) == FIRST_LASTING_S


def test_unresponsive_server_delays_all_claims(queue: ClaimQueue) -> None:
    queue.enqueue(A, FIRST, 0.0, 0.0)
    queue.enqueue(B, FIRST, 0.0, 0.0)
    pauses = [queue.server_failed(queue.begin(), 10.0) for _ in range(20)]

    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S
    assert queue.due == 10.0 + LONGEST_PAUSE_S
    queue.server_answered()
    assert queue.server_failed(queue.begin(), 50.0) == FIRST_PAUSE_S


def test_retry_after_is_respected(queue: ClaimQueue) -> None:
    queue.enqueue(A, FIRST, 0.0, 0.0)

    assert queue.server_failed(queue.begin(), 10.0, after_s=120.0) == 120.0
    assert queue.due == 130.0


def test_delays_have_jitter() -> None:
    queue = ClaimQueue(lambda: 0.0)
    queue.enqueue(A, FIRST, 0.0, 0.0)

    assert queue.server_failed(queue.begin(), 10.0) == FIRST_PAUSE_S / 2


def test_postponed_claim_waits_despite_changes(queue: ClaimQueue) -> None:
    queue.enqueue(A, FIRST, 0.0, 0.0)
    queue.postpone(queue.begin(), 3600.0)
    queue.enqueue(A, SECOND, 1.0, 0.2)

    assert queue.due == 3600.0
