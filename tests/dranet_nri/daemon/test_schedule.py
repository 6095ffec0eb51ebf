"""Schedule of reconcile passes, on a clock that the test sets."""

import asyncio
from collections.abc import Callable

import pytest

from dranet_nri.component.backoff import FIRST_DELAY_S
from dranet_nri.daemon.schedule import ReconcileSchedule

pytestmark = pytest.mark.process


RESYNC_S = 60.0


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
def schedule(clock: Clock) -> ReconcileSchedule:
    """Return a schedule whose first round is over."""
    made = ReconcileSchedule(RESYNC_S, clock)
    assert made.remaining_s() == 0, "the first round comes at once"
    made.begin()
    made.settle(pending=False)
    return made


def test_resync_is_due_without_other_events(schedule: ReconcileSchedule) -> None:
    assert schedule.remaining_s() == RESYNC_S


def test_requested_reconcile_is_due_at_once(schedule: ReconcileSchedule) -> None:
    schedule.request_now()

    assert schedule.remaining_s() == 0


def test_request_during_a_pass_starts_the_next_pass(schedule: ReconcileSchedule) -> None:
    schedule.begin()
    schedule.request_now()
    schedule.settle(pending=False)

    assert schedule.remaining_s() == 0


def test_kernel_event_during_a_pass_is_processed_soon_after_it(
    schedule: ReconcileSchedule,
) -> None:
    schedule.begin()
    schedule.note_kernel_event()
    schedule.settle(pending=False)
    assert schedule.remaining_s() == pytest.approx(FIRST_DELAY_S)

    schedule.begin()
    schedule.note_kernel_event()
    schedule.settle(pending=False)
    assert schedule.remaining_s() == pytest.approx(FIRST_DELAY_S), (
        "a round without trouble echoes nothing"
    )

    schedule.begin()
    schedule.settle(pending=False)
    assert schedule.remaining_s() == RESYNC_S, "it is processed once"


def test_kernel_event_during_a_long_backoff_is_processed_soon(
    schedule: ReconcileSchedule,
) -> None:
    for _ in range(12):
        schedule.begin()
        schedule.settle(pending=True)

    schedule.begin()
    schedule.note_kernel_event()
    schedule.settle(pending=True)

    assert schedule.remaining_s() == pytest.approx(FIRST_DELAY_S)


def test_kernel_event_between_passes_needs_one_pass(
    schedule: ReconcileSchedule,
) -> None:
    schedule.note_kernel_event()
    assert schedule.remaining_s() == pytest.approx(FIRST_DELAY_S)

    schedule.begin()
    schedule.settle(pending=False)

    assert schedule.remaining_s() == RESYNC_S


@pytest.mark.parametrize(
    "woken", [ReconcileSchedule.request_soon, ReconcileSchedule.note_kernel_event]
)
def test_pending_work_is_retried_with_growing_delays(
    schedule: ReconcileSchedule, woken: Callable[[ReconcileSchedule], None]
) -> None:
    delays = []
    for _ in range(12):
        schedule.begin()
        woken(schedule)  # of the round's own making
        schedule.settle(pending=True)
        delays.append(schedule.remaining_s())

    assert delays[:3] == pytest.approx([FIRST_DELAY_S, 2 * FIRST_DELAY_S, 4 * FIRST_DELAY_S])
    assert delays[-1] == RESYNC_S


def test_new_event_does_not_wait_for_the_backoff_of_pending_work(
    schedule: ReconcileSchedule, clock: Clock
) -> None:
    for _ in range(12):
        schedule.begin()
        schedule.settle(pending=True)
    assert schedule.remaining_s() == RESYNC_S

    schedule.request_soon()

    assert schedule.remaining_s() == pytest.approx(FIRST_DELAY_S)
    clock.now += FIRST_DELAY_S / 2
    schedule.request_soon()
    assert schedule.remaining_s() == pytest.approx(FIRST_DELAY_S / 2), (
        "more of it postpones nothing"
    )
    schedule.begin()
    schedule.settle(pending=True)
    assert schedule.remaining_s() == pytest.approx(FIRST_DELAY_S), "its delays restart"


def test_new_pending_work_is_retried_soon(schedule: ReconcileSchedule) -> None:
    for pending in (True, True, False, True):
        schedule.begin()
        schedule.settle(pending=pending)

    assert schedule.remaining_s() == pytest.approx(FIRST_DELAY_S)


def test_wait_for_the_resync_ends_on_a_request() -> None:
    async def scenario() -> None:
        schedule = ReconcileSchedule(RESYNC_S, Clock())
        await schedule.wait()
        schedule.settle(pending=False)
        waiting = asyncio.create_task(schedule.wait())
        await asyncio.sleep(0)
        schedule.request_now()
        await waiting

    asyncio.run(scenario())
