"""Work queue: the key that is due, and delays of one key or of all."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranet_nri.component.workqueue import WorkQueue


@pytest.fixture
def queue() -> WorkQueue[str]:
    """Return an empty queue."""
    return WorkQueue()


def test_empty_queue_is_never_due(queue: WorkQueue[str]) -> None:
    assert (queue.due, queue.due_of("a"), "a" in queue) == (inf, inf, False)


def test_keys_are_taken_in_the_order_of_their_times(queue: WorkQueue[str]) -> None:
    for key, at in (("a", 15.0), ("b", 11.0), ("c", 13.0)):
        queue.add(key, at)

    assert (queue.due, queue.take()) == (11.0, "b")
    assert (queue.due, queue.take()) == (13.0, "c")
    assert "b" not in queue
    assert "a" in queue


def test_earliest_of_several_requests_counts(queue: WorkQueue[str]) -> None:
    for at in (12.0, 11.0, 13.0):
        queue.add("a", at)

    assert (queue.due, queue.take(), queue.due) == (11.0, "a", inf)


def test_set_time_replaces_the_earlier_one(queue: WorkQueue[str]) -> None:
    queue.add("a", 11.0)
    queue.set("a", 15.0)
    assert queue.due == 15.0

    queue.set("a", inf)
    assert "a" not in queue


def test_take_all_takes_all_keys_and_keeps_their_delays(queue: WorkQueue[str]) -> None:
    queue.rest("a", 20.0)
    for key in "ab":
        queue.add(key, 11.0)
    queue.take_all()
    assert queue.due == inf

    queue.add("a", 12.0)
    assert queue.due == 20.0


def test_delayed_key_delays_no_other(queue: WorkQueue[str]) -> None:
    for key in "ab":
        queue.add(key, 11.0)
    queue.rest("a", 20.0)

    assert (queue.take(), queue.due) == ("b", 20.0)
    queue.add("a", 12.0)
    assert queue.due == 20.0, "a request does not shorten the delay"

    queue.forget("a")
    queue.add("a", 12.0)
    assert queue.due == 12.0


def test_pause_delays_all_keys(queue: WorkQueue[str]) -> None:
    queue.add("a", 11.0)
    queue.pause(30.0)
    queue.add("b", 12.0)
    assert queue.due == 30.0

    queue.pause(-inf)
    assert queue.due == 11.0


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0, 100)), max_size=30))
def test_no_key_is_lost_or_taken_twice(requests: list[tuple[int, float]]) -> None:
    queue = WorkQueue[int]()
    for key, at in requests:
        queue.add(key, at)

    taken = [queue.take() for _ in {key for key, _ in requests}]

    assert sorted(taken) == sorted({key for key, _ in requests})
    assert queue.due == inf
