"""When the daemon reconciles, with its clock in the test's hands."""

import asyncio
from collections.abc import Callable

import pytest

from dranet_nri.component.backoff import FIRST_DELAY_S
from dranet_nri.daemon.schedule import ReconcileSchedule

pytestmark = pytest.mark.process


SWEEP_S = 60.0


class Clock:
    """Stands still until told."""

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


def test_without_news_and_trouble_the_sweep_comes(bell: ReconcileSchedule) -> None:
    assert bell.remaining_s() == SWEEP_S


def test_news_are_looked_at_at_once(bell: ReconcileSchedule) -> None:
    bell.request_now()

    assert bell.remaining_s() == 0


def test_news_during_a_round_bring_the_next_one(bell: ReconcileSchedule) -> None:
    bell.begin()
    bell.request_now()
    bell.settle(pending=False)

    assert bell.remaining_s() == 0


def test_what_is_announced_during_a_round_is_looked_at_soon_after_it(
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


def test_what_is_announced_while_old_trouble_stays_is_looked_at_soon(
    bell: ReconcileSchedule,
) -> None:
    for _ in range(12):
        bell.begin()
        bell.settle(pending=True)

    bell.begin()
    bell.note_kernel_event()
    bell.settle(pending=True)

    assert bell.remaining_s() == pytest.approx(FIRST_DELAY_S)


def test_what_is_announced_between_rounds_is_for_the_next_one_alone(
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
def test_what_stays_in_trouble_is_looked_at_less_and_less_often(
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


def test_new_trouble_does_not_wait_for_the_old(bell: ReconcileSchedule, clock: Clock) -> None:
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


def test_trouble_after_a_round_without_any_is_looked_at_soon(bell: ReconcileSchedule) -> None:
    for pending in (True, True, False, True):
        bell.begin()
        bell.settle(pending=pending)

    assert bell.remaining_s() == pytest.approx(FIRST_DELAY_S)


def test_who_waits_for_the_sweep_is_woken_by_news() -> None:
    async def scene() -> None:
        bell = ReconcileSchedule(SWEEP_S, Clock())
        await bell.wait()
        bell.settle(pending=False)
        waiting = asyncio.create_task(bell.wait())
        await asyncio.sleep(0)
        bell.request_now()
        await waiting

    asyncio.run(scene())
