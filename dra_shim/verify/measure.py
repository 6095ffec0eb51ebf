"""The course of a verification: facts of all pods first, then the pairs, round by round."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

from dra_shim.verify.bars import Bars
from dra_shim.verify.collectives import check_collectives
from dra_shim.verify.node_checks import check_worker
from dra_shim.verify.outputs import FACTS_SCRIPT, PodFacts, parse_facts
from dra_shim.verify.pair_checks import QUICK, MeasureDurations, NicEnd, PairChecks
from dra_shim.verify.schedule import all_pairs, ring
from dra_shim.verify.types import Line, Outcome, PodRunner, WorkerPod
from dranet_nri.errors import DranetError

PARALLEL = 32  # kubectl processes at a time
FACTS_LIMIT_S = 60.0
ATTEMPTS = 3
CONNECTING = frozenset({"present", "link", "pkey", "route", "reach", "tcp", "ipoib", "rping"})


class UnreadablePodError(DranetError):
    """A command cannot be run in a pod."""

    kind = "api"


@dataclass(frozen=True, slots=True)
class Course:
    """How a verification runs.

    Attributes:
        bars: what must be reached.
        pace: how long each measurement takes.
        full: all pairs, else each pod with the next one.
        exclusive: whether pods must see only RDMA devices that they claim.
        ranks: of each pod in the collectives; 0 for no collectives.
    """

    bars: Bars
    pace: MeasureDurations = QUICK
    full: bool = False
    exclusive: bool = False
    ranks: int = 0


def measure(
    workers: Sequence[WorkerPod], runner: PodRunner, course: Course, progress: Callable[[str], None]
) -> list[Line]:
    """Return the lines of all checks.

    Args:
        workers: the pods, which run.
        runner: runs commands in them.
        course: what is measured.
        progress: takes a line for a person.

    Raises:
        UnreadablePodError: a pod does not answer.
    """
    with ThreadPoolExecutor(PARALLEL) as pool:
        found_facts = pool.map(partial(_facts_of, runner), workers)
        facts = dict(zip(workers, found_facts, strict=True))
        lines = [
            line
            for worker in workers
            for line in check_worker(worker, facts[worker], course.bars, exclusive=course.exclusive)
        ]
        checks = PairChecks(runner, course.bars, course.pace)
        rounds = all_pairs(workers) if course.full else ring(workers)
        for number, pairs in enumerate(rounds, 1):
            names = ", ".join(f"{one.node} and {other.node}" for one, other in pairs[:3])
            more = f" and {len(pairs) - 3} more" if len(pairs) > 3 else ""
            progress(f"round {number} of {len(rounds)}: {names}{more}")
            for found in pool.map(lambda pair: list(_measure_pair(checks, facts, *pair)), pairs):
                lines += found
    if course.ranks:
        lines += _collectives(workers, list(facts.values()), runner, course, lines, progress)
    return lines


def _collectives(
    workers: Sequence[WorkerPod], facts: Sequence[PodFacts], runner: PodRunner, course: Course,
    before: Sequence[Line], progress: Callable[[str], None],
) -> Iterator[Line]:  # fmt: skip
    """Yield the lines of the collectives, which hang where pods do not reach each other."""
    if any(line.outcome is Outcome.FAILED and line.check in CONNECTING for line in before):
        why = "some NICs do not reach each other"
        yield Line("collectives", "all pods", "", Outcome.NOT_MEASURED, meaning=why)
        return
    progress(f"all-gather and all-reduce of {len(workers) * course.ranks} ranks")
    rounds = course.pace.rounds
    yield from _timed(
        check_collectives(workers, facts, runner, course.bars, ranks=course.ranks, rounds=rounds)
    )


def _facts_of(runner: PodRunner, worker: WorkerPod) -> PodFacts:
    """Return what a pod sees; incomplete facts would look like missing devices."""
    said = ""
    for _ in range(ATTEMPTS):
        shown = runner.run(worker.pod, ("sh", "-c", FACTS_SCRIPT), FACTS_LIMIT_S)
        facts = parse_facts(shown.stdout)
        if facts.complete:
            return facts
        said = " ".join(shown.stderr.split()) or f"exit status {shown.exit_code}"
    raise UnreadablePodError(
        f"pod {worker.pod} on node {worker.node} does not answer: {said}; check that "
        "`kubectl exec` works on the node"
    )


def _measure_pair(
    checks: PairChecks, facts: dict[WorkerPod, PodFacts], one: WorkerPod, other: WorkerPod
) -> Iterator[Line]:
    # NICs of one rail meet; they are in the order of the rails on both nodes.
    for mine, theirs in zip(one.nics, other.nics, strict=False):
        source, target = NicEnd(one, mine, facts[one]), NicEnd(other, theirs, facts[other])
        yield from _timed(checks.run(source, target))


def _timed(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the lines with the seconds that each of them took."""
    start = time.monotonic()
    for line in lines:
        end = time.monotonic()
        yield replace(line, seconds=end - start)
        start = end
