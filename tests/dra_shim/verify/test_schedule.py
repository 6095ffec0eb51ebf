"""Schedule of a verification: which pairs of NICs are measured together, and how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from dra_shim.verify.measure import rounds_of
from dra_shim.verify.outputs import PodFacts
from dra_shim.verify.pair_checks import FULL, QUICK, MeasureDurations, PairChecks
from dra_shim.verify.schedule import Round, all_pairs, ring
from dra_shim.verify.thresholds import Thresholds
from dra_shim.verify.types import ClaimedNic, CommandResult, WorkerPod


class Unused:
    """A runner of commands for a plan without a run."""

    def run(self, pod: str, command: Sequence[str], limit_s: float) -> CommandResult:
        """Fail."""
        raise NotImplementedError(pod, command, limit_s)


@pytest.mark.parametrize("number", range(8))
def test_every_pair_is_measured_once_and_no_pod_twice_per_round(number: int) -> None:
    rounds = all_pairs(range(number))

    pairs = [frozenset(pair) for found in rounds for pair in found]
    assert len(pairs) == len(set(pairs)) == number * (number - 1) // 2
    for found in rounds:
        busy = [item for pair in found for item in pair]
        assert len(busy) == len(set(busy))


@pytest.mark.parametrize("schedule", [all_pairs, ring])
@pytest.mark.parametrize("number", range(3, 10))
def test_every_pod_sends_and_receives(
    number: int, schedule: Callable[[Sequence[int]], list[Round[int]]]
) -> None:
    pairs = [pair for found in schedule(range(number)) for pair in found]

    assert {source for source, _ in pairs} == {target for _, target in pairs} == set(range(number))


@pytest.mark.parametrize("number", range(3, 8))
def test_ring_measures_each_pod_with_the_next(number: int) -> None:
    rounds = ring(range(number))

    pairs = {pair for found in rounds for pair in found}
    assert pairs == {(item, (item + 1) % number) for item in range(number)}
    for found in rounds:
        busy = [item for pair in found for item in pair]
        assert len(busy) == len(set(busy))


def pods_of(number: int, cards: Sequence[str]) -> list[WorkerPod]:
    """Return pods on nodes of their own, with a NIC of each card."""
    nics = tuple(
        ClaimedNic(f"nic{index}", f"net{index}", card=card) for index, card in enumerate(cards)
    )
    return [WorkerPod(f"verify-{n}", f"node-{n}", f"10.0.0.{n}", nics) for n in range(number)]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("cards", ["abcdefgh", "aabb", "a", "aaa"])
@pytest.mark.parametrize("number", [2, 3, 8, 9])
def test_no_card_is_in_two_pairs_of_a_round(number: int, cards: str, *, full: bool) -> None:
    pods = pods_of(number, cards)

    rounds = rounds_of(pods, dict.fromkeys(pods, PodFacts()), full=full)

    for pairs in rounds:
        busy = [(end.worker.node, end.nic.card) for pair in pairs for end in pair]
        assert len(busy) == len(set(busy))
    measured = [frozenset(end.name for end in pair) for pairs in rounds for pair in pairs]
    number_of_pairs = number * (number - 1) // 2 if full or number < 3 else number
    assert len(measured) == len(set(measured)) == number_of_pairs * len(cards)


def test_rails_of_pods_with_different_numbers_of_nics_meet_by_name() -> None:
    first, second = pods_of(2, "abc")
    second = replace(second, nics=(second.nics[0], second.nics[2]))
    pods = [first, second]

    (pairs,) = rounds_of(pods, dict.fromkeys(pods, PodFacts()), full=False)

    names = [tuple(end.nic.interface for end in pair) for pair in pairs]
    assert names == [("net0", "net0"), ("net2", "net2")]


def test_rails_of_pods_that_lack_different_nics_meet_by_name() -> None:
    first, second = pods_of(2, "abc")
    first = replace(first, nics=first.nics[:2])
    second = replace(second, nics=second.nics[1:])
    pods = [first, second]

    ((pair,),) = rounds_of(pods, dict.fromkeys(pods, PodFacts()), full=False)

    assert [end.nic.interface for end in pair] == ["net1", "net1"]


def test_rails_of_pods_without_a_common_name_meet_by_place() -> None:
    first, second = pods_of(2, "ab")
    second = replace(
        second, nics=tuple(replace(nic, interface=f"ens{nic.device}") for nic in second.nics)
    )
    pods = [first, second]

    (pairs,) = rounds_of(pods, dict.fromkeys(pods, PodFacts()), full=False)

    assert [tuple(end.rail for end in pair) for pair in pairs] == [(0, 0), (1, 1)]


def test_functions_of_one_card_on_one_node_are_measured_one_after_another() -> None:
    pods = [replace(pod, node="box") for pod in pods_of(4, "a")]

    rounds = rounds_of(pods, dict.fromkeys(pods, PodFacts()), full=False)

    assert [len(pairs) for pairs in rounds] == [1, 1, 1, 1]


@pytest.mark.parametrize("number", [2, 3, 4, 7, 8])
def test_quick_run_of_eight_rails_ends_within_a_minute(number: int) -> None:
    pods = pods_of(number, "abcdefgh")

    rounds = rounds_of(pods, dict.fromkeys(pods, PodFacts()), full=False)

    assert len(rounds) <= 3
    assert len(rounds) * seconds_of_round(QUICK) < 60
    assert seconds_of_round(FULL) > seconds_of_round(QUICK)


@pytest.mark.parametrize(
    ("number", "full", "most_s"),
    [(2, False, 15), (7, False, 45), (64, False, 240), (2, True, 60), (8, True, 360),
     (64, True, 6.5 * 3600)],
)  # fmt: skip
def test_run_takes_at_most_the_time_in_the_manual(
    number: int, most_s: float, *, full: bool
) -> None:
    pods = pods_of(number, "abcdefgh")

    rounds = rounds_of(pods, dict.fromkeys(pods, PodFacts()), full=full)

    seconds = len(rounds) * seconds_of_round(FULL if full else QUICK)
    assert 0.75 * most_s < seconds <= most_s


def seconds_of_round(durations: MeasureDurations) -> float:
    """Return what a round takes on a healthy network, at most."""
    return sum(phase.seconds for phase in PairChecks(Unused(), Thresholds({}), durations).phases())
