"""Pauses between tries."""

from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranet_nri.component.backoff import Backoff, backoff_s

SECONDS = st.floats(0.01, 1000)


def test_delay_doubles_with_each_failure_up_to_the_limit() -> None:
    pauses = [backoff_s(failures, 0.5, 30.0) for failures in range(9)]

    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]


@pytest.mark.parametrize(("random", "expected"), [(0.0, 4.0), (0.5, 6.0), (1.0, 8.0)])
def test_random_delay_is_between_half_and_all_of_the_delay(random: float, expected: float) -> None:
    assert backoff_s(3, 1.0, 60.0, random) == expected
    assert backoff_s(9, 1.0, 8.0, random) == expected, "the limit is of the whole pause"


def test_delay_after_a_million_failures_is_finite() -> None:
    assert backoff_s(1_000_000, 0.2, 10.0) == 10.0
    assert backoff_s(1_000_000, 0.2, inf) < inf


@given(SECONDS, SECONDS, st.floats(0, 1))
def test_delays_never_decrease_and_never_exceed_the_limit(
    first_s: float, longest_s: float, random: float
) -> None:
    pauses = [backoff_s(failures, first_s, longest_s, random) for failures in range(30)]

    assert all(0 < before <= after for before, after in pairwise(pauses))
    assert pauses[-1] <= longest_s


def test_delays_grow_until_a_success_and_respect_the_minimum() -> None:
    backoff = Backoff(0.5, 30.0, lasting_s=(5.0, 300.0))

    assert [backoff.next_s() for _ in range(3)] == [0.5, 1.0, 2.0]
    assert backoff.next_s(lasting=True) == 40.0, "failures of both kinds are counted together"
    assert backoff.next_s(at_least_s=60.0) == 60.0
    assert backoff.failures == 5

    backoff.reset()
    assert backoff.next_s() == 0.5


def test_delays_have_a_random_part() -> None:
    assert Backoff(0.5, 30.0, lambda: 0.0).next_s() == 0.25
