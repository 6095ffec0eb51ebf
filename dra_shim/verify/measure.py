"""Measurement of all pods: their facts first, then the pairs of NICs, round by round.

All pairs of a round are measured together, phase by phase.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from dra_shim.verify.collectives import check_collectives
from dra_shim.verify.node_checks import check_worker, failed, name_of
from dra_shim.verify.outputs import FACTS_SCRIPT, PodFacts, parse_facts
from dra_shim.verify.pair_checks import QUICK, CheckPhase, MeasureDurations, NicEnd, PairChecks
from dra_shim.verify.schedule import Round, all_pairs, disjoint, ring
from dra_shim.verify.thresholds import Thresholds
from dra_shim.verify.types import Line, Outcome, PodRunner, WorkerPod
from dranet_nri.component.replace import replace
from dranet_nri.errors import DranetError

PARALLEL = 32  # pairs of NICs at a time; each needs a kubectl process on both ends
FACTS_LIMIT_S = 60.0
ATTEMPTS = 3
CONNECTING = frozenset({"present", "link", "pkey", "route", "reach", "tcp", "ipoib", "rping"})
# What the checks of a NIC with an address and of one with RDMA run.
IP_PROGRAMS = frozenset({"ip", "ping", "iperf3"})
RDMA_PROGRAMS = frozenset({"rping", "stdbuf", "ib_write_bw", "ib_read_lat"})


class UnreadablePodError(DranetError):
    """A pod does not answer, or lacks a measuring program."""

    kind = "api"

    def __init__(self, worker: WorkerPod, what: str, remedy: str) -> None:
        self.line = replace(
            failed("pod", "no-pod", worker.node),
            meaning=f"pod {worker.pod} on node {worker.node} {what}",
            remedy=remedy,
        )
        super().__init__(f"{self.line.meaning}: {remedy}")


@dataclass(frozen=True, slots=True)
class MeasurementPlan:
    """Settings of a verification.

    Attributes:
        thresholds: required values of the measurements.
        durations: duration of each measurement.
        full: all pairs of pods, otherwise each pod with the next one.
        exclusive: whether a pod that sees RDMA devices it does not claim is a failure.
        ranks: ranks of each pod in the collectives; 0 for no collectives.
    """

    thresholds: Thresholds
    durations: MeasureDurations = QUICK
    full: bool = False
    exclusive: bool = False
    ranks: int = 0


def measure(
    workers: Sequence[WorkerPod],
    runner: PodRunner,
    plan: MeasurementPlan,
    progress: Callable[[str], None],
) -> list[Line]:
    """Return the lines of all checks.

    Args:
        workers: the running pods.
        runner: runs commands in them.
        plan: settings of the verification.
        progress: called with each line of the progress.

    Raises:
        UnreadablePodError: fewer than two pods answer and have the measuring programs.
    """
    stopwatch = _Stopwatch(progress)
    with ThreadPoolExecutor(PARALLEL) as pool:
        facts, lines = _facts_of_all(pool, workers, runner)
        workers = list(facts)
        stopwatch.report(f"facts of {len(workers)} pods")
        for worker in workers:
            lines += check_worker(worker, facts[worker], plan.thresholds, exclusive=plan.exclusive)
        phases = PairChecks(runner, plan.thresholds, plan.durations).phases()
        rounds = rounds_of(workers, facts, full=plan.full)
        lines += _without_peer(workers, rounds)
        progress(_plan_text(rounds, phases))
        for number, pairs in enumerate(rounds, 1):
            progress(f"round {number} of {len(rounds)}: {_names(pairs)}")
            for phase in phases:
                if pairs:
                    found, pairs = _run_phase(phase, pairs, pool)
                    lines += found
                    stopwatch.report(phase.name)
    if plan.ranks:
        lines += _collectives(workers, list(facts.values()), runner, plan, lines, progress)
        stopwatch.report("collectives")
    progress(f"measured in {stopwatch.total_s:.0f} s")
    return lines


def rounds_of(
    workers: Sequence[WorkerPod], facts: Mapping[WorkerPod, PodFacts], *, full: bool
) -> list[Round[NicEnd]]:
    """Return the pairs of NICs in rounds, in which no card is in two pairs.

    Args:
        workers: the pods. A pair is of one rail: NICs of one name. Between pods with the same
            number of NICs and no common name, a pair is of NICs at one place in their order.
        facts: interfaces and RDMA devices of each pod.
        full: all pairs of pods, otherwise each pod with the next one.
    """
    ends = {
        worker: [NicEnd(worker, nic, facts[worker], rail) for rail, nic in enumerate(worker.nics)]
        for worker in workers
    }
    return [
        batch
        for pods in (all_pairs(workers) if full else ring(workers))
        for batch in disjoint(
            (pair for one, other in pods for pair in _rails(ends[one], ends[other])),
            lambda end: (end.worker.node, end.nic.card or end.name),
            PARALLEL,
        )
    ]


def _rails(one: Sequence[NicEnd], other: Sequence[NicEnd]) -> Iterator[tuple[NicEnd, NicEnd]]:
    """Yield the NICs of two pods that meet."""
    by_name = {end.nic.interface or end.nic.rdma: end for end in other}
    found = [(end, by_name.get(end.nic.interface or end.nic.rdma)) for end in one]
    pairs = [(end, peer) for end, peer in found if peer is not None]
    # Counts alone do not tell: each pod may lack the NIC of another rail.
    yield from pairs if pairs or len(one) != len(other) else zip(one, other, strict=True)


def _without_peer(workers: Sequence[WorkerPod], rounds: Sequence[Round[NicEnd]]) -> Iterator[Line]:
    """Yield a line for each NIC that is in no pair, since other pods have fewer NICs."""
    paired = {(end.worker, end.nic) for pairs in rounds for pair in pairs for end in pair}
    for worker in workers:
        for nic in worker.nics:
            if (worker, nic) not in paired:
                name, why = name_of(worker, nic), "the other pod has no NIC of this rail"
                yield Line("reach", name, "", Outcome.NOT_MEASURED, meaning=why, ratio=0.5)


def _run_phase(
    phase: CheckPhase, pairs: Round[NicEnd], pool: ThreadPoolExecutor
) -> tuple[list[Line], Round[NicEnd]]:
    """Return the lines of all pairs, and the pairs that continue with the next phase."""
    found = list(pool.map(lambda pair: list(_timed(phase.check(*pair))), pairs))
    continuing = [
        pair
        for pair, lines in zip(pairs, found, strict=True)
        if not phase.gate or all(line.outcome is Outcome.PASSED for line in lines)
    ]
    return [line for lines in found for line in lines], continuing


def _plan_text(rounds: Sequence[Round[NicEnd]], phases: Sequence[CheckPhase]) -> str:
    """Return the number of pairs, and the longest duration on a healthy network."""
    seconds = len(rounds) * sum(phase.seconds for phase in phases)
    text = f"{seconds / 60:.0f} min" if seconds > 120 else f"{seconds:.0f} s"
    return f"pairs of NICs: {sum(map(len, rounds))}, rounds: {len(rounds)}, at most {text}"


def _names(pairs: Round[NicEnd]) -> str:
    """Return the names of at most three pairs for the progress."""
    names = ", ".join(f"{one.name} and {other.name}" for one, other in pairs[:3])
    return f"{names} and {len(pairs) - 3} more" if len(pairs) > 3 else names


class _Stopwatch:
    """Reporter of the duration of each phase."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress
        self._begin = self._last = time.monotonic()

    @property
    def total_s(self) -> float:
        """Return the seconds since the start."""
        return self._last - self._begin

    def report(self, phase: str) -> None:
        """Report the seconds since the last phase."""
        now = time.monotonic()
        self._progress(f"  {phase}: {now - self._last:.1f} s")
        self._last = now


def _collectives(
    workers: Sequence[WorkerPod],
    facts: Sequence[PodFacts],
    runner: PodRunner,
    plan: MeasurementPlan,
    earlier: Sequence[Line],
    progress: Callable[[str], None],
) -> Iterator[Line]:
    """Yield the lines of the collectives, which hang where pods do not reach each other."""
    if any(line.outcome is Outcome.FAILED and line.check in CONNECTING for line in earlier):
        why = "some NICs do not reach each other"
        yield Line("collectives", "all pods", "", Outcome.NOT_MEASURED, meaning=why)
        return
    progress(f"all-gather and all-reduce of {len(workers) * plan.ranks} ranks")
    rounds = plan.durations.rounds
    yield from _timed(
        check_collectives(workers, facts, runner, plan.thresholds, ranks=plan.ranks, rounds=rounds)
    )


def _facts_of_all(
    pool: ThreadPoolExecutor, workers: Sequence[WorkerPod], runner: PodRunner
) -> tuple[dict[WorkerPod, PodFacts], list[Line]]:
    """Return the facts of the readable pods, and a line for each other one."""
    facts: dict[WorkerPod, PodFacts] = {}
    errors: list[UnreadablePodError] = []
    for worker, reading in [(worker, pool.submit(_facts_of, runner, worker)) for worker in workers]:
        try:
            facts[worker] = reading.result()
        except UnreadablePodError as error:
            errors.append(error)
    if errors and len(facts) < 2:
        raise errors[0]
    # One faulty node must not hide the results of the others.
    return facts, [error.line for error in errors]


def _facts_of(runner: PodRunner, worker: WorkerPod) -> PodFacts:
    """Return the facts of a pod; incomplete facts, which lack devices, are read again."""
    error_text = ""
    for _ in range(ATTEMPTS):
        shown = runner.run(worker.pod, ("sh", "-c", FACTS_SCRIPT), FACTS_LIMIT_S)
        facts = parse_facts(shown.stdout)
        if facts.complete:
            _check_programs(worker, facts)
            return facts
        error_text = " ".join(shown.stderr.split()) or f"exit status {shown.exit_code}"
    raise UnreadablePodError(
        worker, f"does not answer: {error_text}", "check that `kubectl exec` works on the node"
    )


def _check_programs(worker: WorkerPod, facts: PodFacts) -> None:
    """Refuse an image without the programs: their failure would look like one of the network.

    Raises:
        UnreadablePodError: the pod needs a program that it does not have.
    """
    needed = IP_PROGRAMS if any(nic.address for nic in worker.nics) else frozenset()
    needed |= RDMA_PROGRAMS if any(nic.rdma for nic in worker.nics) else frozenset()
    if missing := sorted(facts.missing & needed):
        raise UnreadablePodError(
            worker,
            f"has no {', '.join(missing)}, and apt-get did not install them",
            "set --image to an image that has them",
        )


def _timed(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines with the duration of each check."""
    start = time.monotonic()
    for line in lines:
        end = time.monotonic()
        yield replace(line, seconds=end - start)
        start = end
