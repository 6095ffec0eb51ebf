"""Schedule of reconcile passes, on a clock that the test sets."""

import asyncio
from collections.abc import Callable

import pytest

from dranet_nri.component.backoff import FIRST_DELAY_S
from dranet_nri.daemon.schedule import ReconcileSchedule

pytestmark = pytest.mark.process


SWEEP_S = 60.0


class Clock:
    """A clock that is advanced by the test only."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return a clock."""
    return Clock()


@pytest.fixture
def bell(clock: Clock) -> ReconcileSchedule:
    """Return a bell whose first round is over."""
    made = ReconcileSchedule(SWEEP_S, clock)
    assert made.remaining_s() == 0, "the first round comes at once"
    made.begin()
    made.settle(pending=False)
    return made


def test_resync_is_due_without_other_events(bell: ReconcileSchedule) -> None:
    assert bell.remaining_s() == SWEEP_S


def test_requested_reconcile_is_due_at_once(bell: ReconcileSchedule) -> None:
    bell.request_now()

    assert bell.remaining_s() == 0


def test_request_during_a_pass_starts_the_next_pass(bell: ReconcileSchedule) -> None:
    bell.begin()
    bell.request_now()
    bell.settle(pending=False)

    assert bell.remaining_s() == 0


def test_kernel_event_during_a_pass_is_processed_soon_after_it(
    bell: ReconcileSchedule,
) -> None:
    bell.begin()
    bell.note_kernel_event()
    bell.settle(pending=False)
    assert bell.remaining_s() == pytest.approx(FIRST_DELAY_S)

    bell.begin()
    bell.note_kernel_event()
    bell.settle(pending=False)
    assert bell.remaining_s() == pytest.approx(FIRST_DELAY_S), (
        "a round without trouble echoes nothing"
    )

    bell.begin()
    bell.settle(pending=False)
    assert bell.remaining_s() == SWEEP_S, "it is looked at once"


def test_kernel_event_during_a_long_backoff_is_processed_soon(
    bell: ReconcileSchedule,
) -> None:
    for _ in range(12):
        bell.begin()
        bell.settle(pending=True)

    bell.begin()
    bell.note_kernel_event()
    bell.settle(pending=True)

    assert bell.remaining_s() == pytest.approx(FIRST_DELAY_S)


def test_kernel_event_between_passes_needs_one_pass(
    bell: ReconcileSchedule,
) -> None:
    bell.note_kernel_event()
    assert bell.remaining_s() == pytest.approx(FIRST_DELAY_S)

    bell.begin()
    bell.settle(pending=False)

    assert bell.remaining_s() == SWEEP_S


@pytest.mark.parametrize(
    "stirred", [ReconcileSchedule.request_soon, ReconcileSchedule.note_kernel_event]
)
def test_pending_work_is_retried_with_growing_delays(
    bell: ReconcileSchedule, stirred: Callable[[ReconcileSchedule], None]
) -> None:
    delays = []
    for _ in range(12):
        bell.begin()
        stirred(bell)  # of the round's own making
        bell.settle(pending=True)
        delays.append(bell.remaining_s())

    assert delays[:3] == pytest.approx([FIRST_DELAY_S, 2 * FIRST_DELAY_S, 4 * FIRST_DELAY_S])
    assert delays[-1] == SWEEP_S


def test_new_event_does_not_wait_for_the_backoff_of_pending_work(
    bell: ReconcileSchedule, clock: Clock
) -> None:
    for _ in range(12):
        bell.begin()
        bell.settle(pending=True)
    assert bell.remaining_s() == SWEEP_S

    bell.request_soon()

    assert bell.remaining_s() == pytest.approx(FIRST_DELAY_S)
    clock.now += FIRST_DELAY_S / 2
    bell.request_soon()
    assert bell.remaining_s() == pytest.approx(FIRST_DELAY_S / 2), "more of it postpones nothing"
    bell.begin()
    bell.settle(pending=True)
    assert bell.remaining_s() == pytest.approx(FIRST_DELAY_S), "its delays grow anew"


def test_new_pending_work_is_retried_soon(bell: ReconcileSchedule) -> None:
    for pending in (True, True, False, True):
        bell.begin()
        bell.settle(pending=pending)

    assert bell.remaining_s() == pytest.approx(FIRST_DELAY_S)


def test_wait_for_the_resync_ends_on_a_request() -> None:
    async def scene() -> None:
        bell = ReconcileSchedule(SWEEP_S, Clock())
        await bell.wait()
        bell.settle(pending=False)
        waiting = asyncio.create_task(bell.wait())
        await asyncio.sleep(0)
        bell.request_now()
        await waiting

    asyncio.run(scene())
