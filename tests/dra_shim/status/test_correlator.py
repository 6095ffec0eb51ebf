"""The queue of Events, and the limit of Events for one object."""

from dataclasses import replace
from math import inf

import pytest

from dra_shim.status.correlator import (
    BURST,
    MAX_CACHED,
    MAX_PENDING,
    REFILL_S,
    EventCorrelator,
    PendingEvent,
)
from dra_shim.status.reasons import EventSpec
from dranet_nri.model import ObjectRef
from tests.dra_shim.status.records import POD

FAILED = EventSpec("Pod", POD, "NetworkDeviceAttachFailed", "eth0: EBUSY", 100)
OTHER = replace(FAILED, subject=replace(POD, uid="pod-2"))


class CorrelatorBench:
    """A backlog that counts how often it was full."""

    def __init__(self) -> None:
        self.full = 0
        self.backlog = EventCorrelator(self._overflow)

    def _overflow(self) -> None:
        self.full += 1

    def add(self, *occurrences: EventSpec) -> list[bool]:
        return [self.backlog.add(event) for event in occurrences]

    def taken(self, now: float) -> list[PendingEvent]:
        found = []
        while (one := self.backlog.take(now)) is not None:
            found.append(one)
        return found


@pytest.fixture
def bench() -> CorrelatorBench:
    """Return an empty one."""
    return CorrelatorBench()


def numbered(count: int) -> list[EventSpec]:
    return [replace(FAILED, message=f"message {index}") for index in range(count)]


def test_events_are_posted_in_order(bench: CorrelatorBench) -> None:
    assert bench.add(OTHER, FAILED) == [True, True]
    assert bench.backlog.due(5.0) == 5.0

    assert bench.taken(5.0) == [PendingEvent(OTHER), PendingEvent(FAILED)]
    assert bench.backlog.due(5.0) == inf


def test_simultaneous_duplicates_are_posted_once(bench: CorrelatorBench) -> None:
    assert bench.add(FAILED, FAILED, replace(FAILED, at=99)) == [True, False, False]
    assert bench.taken(0.0) == [PendingEvent(FAILED)]
    assert bench.add(FAILED) == [False]


def test_later_duplicate_is_counted(bench: CorrelatorBench) -> None:
    again = replace(FAILED, at=101)

    assert bench.add(FAILED, again) == [True, True]
    assert bench.taken(0.0) == [PendingEvent(again, 2)]


def test_one_time_event_is_not_repeated(bench: CorrelatorBench) -> None:
    once = replace(FAILED, once=True)

    assert bench.add(once, replace(once, at=200)) == [True, False]


@pytest.mark.parametrize("subject", [ObjectRef("", "p", "u"), ObjectRef("ns", "", "u")])
def test_subject_outside_the_cluster_has_no_event(
    bench: CorrelatorBench, subject: ObjectRef
) -> None:
    assert bench.add(replace(FAILED, subject=subject)) == [False]


def test_subject_has_a_burst_of_25_then_one_event_in_five_minutes(bench: CorrelatorBench) -> None:
    bench.add(*numbered(BURST + 2))

    assert len(bench.taken(0.0)) == BURST
    assert bench.backlog.due(10.0) == pytest.approx(REFILL_S)
    assert len(bench.taken(REFILL_S)) == 1
    assert len(bench.taken(REFILL_S)) == 0
    assert len(bench.taken(2 * REFILL_S)) == 1


def test_rate_limit_of_a_subject_does_not_delay_others(bench: CorrelatorBench) -> None:
    bench.add(*numbered(BURST + 1))
    bench.taken(0.0)
    bench.add(OTHER)

    assert bench.backlog.due(1.0) == 1.0
    assert bench.taken(1.0) == [PendingEvent(OTHER)]


def test_burst_of_a_subject_is_at_most_25(bench: CorrelatorBench) -> None:
    bench.add(*numbered(2 * BURST))

    assert len(bench.taken(1e9)) == BURST


def test_failed_event_is_requeued_without_using_the_burst(bench: CorrelatorBench) -> None:
    bench.add(*numbered(BURST))
    first = bench.backlog.take(0.0)
    assert first is not None

    bench.backlog.put_back(first)

    assert len(taken := bench.taken(0.0)) == BURST
    assert taken[-1] is first


def test_requeued_event_is_merged_with_new_ones(bench: CorrelatorBench) -> None:
    bench.add(FAILED)
    first = bench.backlog.take(0.0)
    assert first is not None
    again = replace(FAILED, at=130)
    bench.add(again)
    first.tries = 3

    bench.backlog.put_back(first)

    assert bench.taken(0.0) == [PendingEvent(again, 2, tries=3)]


def test_queue_of_events_is_bounded(bench: CorrelatorBench) -> None:
    many = numbered(MAX_PENDING + 1)

    assert bench.add(*many)[-2:] == [True, False]
    assert bench.full == 1
    bench.taken(0.0)
    assert bench.add(many[-1]) == [True], "it was not told"


def test_old_event_can_be_posted_again(bench: CorrelatorBench) -> None:
    for event in (FAILED, *numbered(MAX_CACHED)):
        bench.add(event)
        bench.taken(1e9 * event.at)
        bench.backlog._pending.clear()

    assert bench.add(FAILED) == [True]
