"""Which claim is written, and when."""

from math import inf

import pytest

from dra_shim.status.conditions import DeviceStatus
from dra_shim.status.workqueue import (
    FIRST_LASTING_S,
    FIRST_PAUSE_S,
    LONGEST_LASTING_S,
    LONGEST_PAUSE_S,
    REST_S,
    ClaimQueue,
)
from dranet_nri.model import ObjectRef

A, B = ObjectRef("ai", "a", "uid-a"), ObjectRef("ai", "b", "uid-b")
FIRST, SECOND = ((DeviceStatus("node-a", name, "", ()),) for name in ("nic-0", "nic-1"))


@pytest.fixture
def agenda() -> ClaimQueue:
    """Return one whose pauses are as long as can be."""
    return ClaimQueue(lambda: 1.0)


def test_nothing_is_due_before_something_is_wanted(agenda: ClaimQueue) -> None:
    assert agenda.due == inf


def test_the_first_that_is_due_comes_first(agenda: ClaimQueue) -> None:
    agenda.want(A, FIRST, 10.0, 5.0)
    agenda.want(B, FIRST, 11.0, 0.2)

    assert agenda.due == 11.2
    assert agenda.begin().claim == B
    assert agenda.due == 15.0
    assert agenda.begin().claim == A
    assert agenda.due == inf


def test_the_same_again_changes_nothing(agenda: ClaimQueue) -> None:
    agenda.want(A, FIRST, 10.0, 0.2)
    agenda.want(A, FIRST, 10.1, 0.2)

    assert agenda.due == 10.2


def test_the_last_state_wins(agenda: ClaimQueue) -> None:
    agenda.want(A, FIRST, 10.0, 5.0)
    agenda.want(A, SECOND, 11.0, 0.2)

    assert agenda.due == 11.2
    assert agenda.begin().devices == SECOND


def test_a_write_buys_a_rest(agenda: ClaimQueue) -> None:
    agenda.want(A, FIRST, 10.0, 0.0)
    agenda.done(agenda.begin(), 10.0, wrote=True)

    agenda.want(A, SECOND, 11.0, 0.2)

    assert agenda.due == 10.0 + REST_S


def test_what_was_there_already_buys_none(agenda: ClaimQueue) -> None:
    agenda.want(A, FIRST, 10.0, 0.0)
    agenda.done(agenda.begin(), 10.0, wrote=False)

    agenda.want(A, SECOND, 11.0, 0.2)

    assert agenda.due == 11.2


def test_what_changes_while_it_is_written_is_written_next(agenda: ClaimQueue) -> None:
    agenda.want(A, FIRST, 10.0, 0.0)
    job = agenda.begin()
    agenda.want(A, SECOND, 10.0, 0.2)
    agenda.done(job, 10.5, wrote=True)

    assert agenda.due == 10.5 + REST_S
    assert agenda.begin().devices == SECOND


def test_a_claim_that_was_withdrawn_is_forgotten(agenda: ClaimQueue) -> None:
    agenda.want(A, (), 10.0, 0.0)
    agenda.done(agenda.begin(), 10.0, wrote=True)

    agenda.want(A, (), 11.0, 0.2)

    assert agenda.due == 11.2, "it is new to the agenda"


def test_a_claim_that_is_wanted_again_while_it_is_withdrawn_stays(agenda: ClaimQueue) -> None:
    agenda.want(A, (), 10.0, 0.0)
    job = agenda.begin()
    agenda.want(A, FIRST, 10.0, 0.2)
    agenda.done(job, 10.5, wrote=True)

    assert agenda.begin().devices == FIRST


def test_a_claim_that_is_gone_is_forgotten(agenda: ClaimQueue) -> None:
    agenda.want(A, FIRST, 10.0, 0.0)
    job = agenda.begin()
    agenda.want(A, SECOND, 10.0, 0.2)
    agenda.forget(job)
    agenda.forget(job)

    assert agenda.due == inf


@pytest.mark.parametrize(
    ("lasting", "first_s", "longest_s"),
    [(False, FIRST_PAUSE_S, LONGEST_PAUSE_S), (True, FIRST_LASTING_S, LONGEST_LASTING_S)],
)
def test_what_hinders_a_claim_delays_it_ever_longer(
    agenda: ClaimQueue,
    lasting: bool,  # noqa: FBT001
    first_s: float,
    longest_s: float,
) -> None:
    agenda.want(A, FIRST, 0.0, 0.0)
    agenda.want(B, FIRST, 0.0, 7.0)
    job, pauses = agenda.begin(), []
    for _ in range(20):
        pauses.append(agenda.hindered(job, 10.0, lasting=lasting))
        job.due = 0.0  # as if the time had passed
        assert agenda.begin() is job

    assert pauses[:3] == [first_s, 2 * first_s, 4 * first_s]
    assert pauses[-1] == longest_s
    assert agenda.due == 7.0


def test_news_do_not_hurry_a_claim_that_is_hindered(agenda: ClaimQueue) -> None:
    agenda.want(A, FIRST, 0.0, 0.0)
    agenda.hindered(agenda.begin(), 10.0, lasting=True)
    agenda.want(A, SECOND, 11.0, 0.2)

    assert agenda.due == 10.0 + FIRST_LASTING_S


def test_a_claim_that_was_written_begins_anew(agenda: ClaimQueue) -> None:
    agenda.want(A, FIRST, 0.0, 0.0)
    agenda.hindered(agenda.begin(), 10.0, lasting=True)
    job = agenda.begin()
    agenda.done(job, 20.0, wrote=True)

    assert agenda.hindered(job, 30.0, lasting=True) == FIRST_LASTING_S


def test_a_server_that_does_not_answer_delays_all(agenda: ClaimQueue) -> None:
    agenda.want(A, FIRST, 0.0, 0.0)
    agenda.want(B, FIRST, 0.0, 0.0)
    pauses = [agenda.silenced(agenda.begin(), 10.0) for _ in range(20)]

    assert pauses[:3] == [FIRST_PAUSE_S, 2 * FIRST_PAUSE_S, 4 * FIRST_PAUSE_S]
    assert pauses[-1] == LONGEST_PAUSE_S
    assert agenda.due == 10.0 + LONGEST_PAUSE_S
    agenda.answered()
    assert agenda.silenced(agenda.begin(), 50.0) == FIRST_PAUSE_S


def test_a_server_that_asks_for_time_has_it(agenda: ClaimQueue) -> None:
    agenda.want(A, FIRST, 0.0, 0.0)

    assert agenda.silenced(agenda.begin(), 10.0, after_s=120.0) == 120.0
    assert agenda.due == 130.0


def test_pauses_are_spread() -> None:
    agenda = ClaimQueue(lambda: 0.0)
    agenda.want(A, FIRST, 0.0, 0.0)

    assert agenda.silenced(agenda.begin(), 10.0) == FIRST_PAUSE_S / 2


def test_what_is_put_off_waits_whatever_the_news(agenda: ClaimQueue) -> None:
    agenda.want(A, FIRST, 0.0, 0.0)
    agenda.put_off(agenda.begin(), 3600.0)
    agenda.want(A, SECOND, 1.0, 0.2)

    assert agenda.due == 3600.0
