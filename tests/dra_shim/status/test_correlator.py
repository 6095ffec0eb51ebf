"""The queue of Events, and the limit of Events for one object."""

from dataclasses import replace
from math import inf

import pytest

from dra_shim.status.correlator import (
    BURST,
    MAX_KNOWN,
    MAX_WAITING,
    REFILL_S,
    EventCorrelator,
    PendingEvent,
)
from dra_shim.status.reasons import EventSpec
from dranet_nri.model import ObjectRef
from tests.dra_shim.status.records import POD

FAILED = EventSpec("Pod", POD, "NetworkDeviceAttachFailed", "eth0: EBUSY", 100)
OTHER = replace(FAILED, subject=replace(POD, uid="pod-2"))


class Book:
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
def book() -> Book:
    """Return an empty one."""
    return Book()


def numbered(count: int) -> list[EventSpec]:
    return [replace(FAILED, message=f"message {index}") for index in range(count)]


def test_events_are_posted_in_order(book: Book) -> None:
    assert book.add(OTHER, FAILED) == [True, True]
    assert book.backlog.due(5.0) == 5.0

    assert book.taken(5.0) == [PendingEvent(OTHER), PendingEvent(FAILED)]
    assert book.backlog.due(5.0) == inf


def test_simultaneous_duplicates_are_posted_once(book: Book) -> None:
    assert book.add(FAILED, FAILED, replace(FAILED, at=99)) == [True, False, False]
    assert book.taken(0.0) == [PendingEvent(FAILED)]
    assert book.add(FAILED) == [False]


def test_later_duplicate_is_counted(book: Book) -> None:
    again = replace(FAILED, at=101)

    assert book.add(FAILED, again) == [True, True]
    assert book.taken(0.0) == [PendingEvent(again, 2)]


def test_one_time_event_is_not_repeated(book: Book) -> None:
    once = replace(FAILED, once=True)

    assert book.add(once, replace(once, at=200)) == [True, False]


@pytest.mark.parametrize("subject", [ObjectRef("", "p", "u"), ObjectRef("ns", "", "u")])
def test_subject_outside_the_cluster_has_no_event(book: Book, subject: ObjectRef) -> None:
    assert book.add(replace(FAILED, subject=subject)) == [False]


def test_subject_has_a_burst_of_25_then_one_event_in_five_minutes(book: Book) -> None:
    book.add(*numbered(BURST + 2))

    assert len(book.taken(0.0)) == BURST
    assert book.backlog.due(10.0) == pytest.approx(REFILL_S)
    assert len(book.taken(REFILL_S)) == 1
    assert len(book.taken(REFILL_S)) == 0
    assert len(book.taken(2 * REFILL_S)) == 1


def test_rate_limit_of_a_subject_does_not_delay_others(book: Book) -> None:
    book.add(*numbered(BURST + 1))
    book.taken(0.0)
    book.add(OTHER)

    assert book.backlog.due(1.0) == 1.0
    assert book.taken(1.0) == [PendingEvent(OTHER)]


def test_burst_of_a_subject_is_at_most_25(book: Book) -> None:
    book.add(*numbered(2 * BURST))

    assert len(book.taken(1e9)) == BURST


def test_failed_event_is_requeued_without_using_the_burst(book: Book) -> None:
    book.add(*numbered(BURST))
    first = book.backlog.take(0.0)
    assert first is not None

    book.backlog.put_back(first)

    assert len(taken := book.taken(0.0)) == BURST
    assert taken[-1] is first


def test_requeued_event_is_merged_with_new_ones(book: Book) -> None:
    book.add(FAILED)
    first = book.backlog.take(0.0)
    assert first is not None
    again = replace(FAILED, at=130)
    book.add(again)
    first.tries = 3

    book.backlog.put_back(first)

    assert book.taken(0.0) == [PendingEvent(again, 2, tries=3)]


def test_queue_of_events_is_bounded(book: Book) -> None:
    many = numbered(MAX_WAITING + 1)

    assert book.add(*many)[-2:] == [True, False]
    assert book.full == 1
    book.taken(0.0)
    assert book.add(many[-1]) == [True], "it was not told"


def test_old_event_can_be_posted_again(book: Book) -> None:
    for event in (FAILED, *numbered(MAX_KNOWN)):
        book.add(event)
        book.taken(1e9 * event.at)
        book.backlog._waiting.clear()

    assert book.add(FAILED) == [True]
