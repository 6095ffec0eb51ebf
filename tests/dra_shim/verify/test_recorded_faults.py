"""Faults of the path between two pods, by the recorded output of the measuring programs.

`recorded_faults.json` has what each program printed on two machines with soft-RoCE devices, without
a fault and with each fault of `tests/system/vm_pair/faults.py` that CI does not cause itself. Of a
fault, it has the outputs that differ.
"""

from __future__ import annotations

import json
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest

from dra_shim.verify.measure import MeasurementPlan, measure
from dra_shim.verify.outputs import FACTS_SCRIPT
from dra_shim.verify.pair_checks import UNTIL_PINGED, UNTIL_SERVED, MeasureDurations
from dra_shim.verify.remedies import CAUSES
from dra_shim.verify.report import as_text
from dra_shim.verify.thresholds import Thresholds
from dra_shim.verify.types import ClaimedNic, CommandResult, Fabric, Line, Outcome, WorkerPod

RECORDED: Final[Mapping[str, Mapping[str, tuple[int, str]]]] = json.loads(
    Path(__file__).with_name("recorded_faults.json").read_text()
)
MANUAL: Final = Path(__file__).parents[3] / "manifests/docs/cli.md"
# As in the recorded runs: the keys have these numbers.
DURATIONS: Final = MeasureDurations(pings=500, pings_s=20, seconds=1, reads=50, rounds=1)
THRESHOLDS: Final = Thresholds({"tcp": 0.02, "write": 0, "latency": 1_000_000})
PODS: Final = tuple(
    WorkerPod(
        name, name, address,
        tuple(
            ClaimedNic(f"ens{rail}", f"ens{rail}", f"10.9.{rail - 1}.{number}", f"rxe{rail - 1}",
                       Fabric.ROCE, 1500)
            for rail in (1, 2)
        ),
    )
    for number, (name, address) in enumerate((("here", "192.0.2.2"), ("there", "192.0.2.1")), 1)
)  # fmt: skip


def key_of(pod: str, command: Sequence[str]) -> str:
    """Return the key of a command: its pod, and the program without what starts it."""
    words = list(command)
    if UNTIL_SERVED in words:
        words = words[words.index(UNTIL_SERVED) + 2 :]
    if FACTS_SCRIPT in words:
        words = ["facts"]
    if UNTIL_PINGED in words:
        words = ["rping", "client", *words[words.index(UNTIL_PINGED) + 2 :]]
    return f"{pod}: {shlex.join(words)}"


@dataclass
class RecordedPrograms:
    """A runner whose programs print what was recorded; servers print nothing.

    Attributes:
        fault: of the recorded run.
        keys: what ran, in its order.
        waited_s: limits of the commands that reached theirs.
    """

    fault: str
    keys: list[str] = field(default_factory=list)
    waited_s: float = 0.0

    def run(self, pod: str, command: Sequence[str], limit_s: float) -> CommandResult:
        """Return the recorded result."""
        if command[0] == "timeout" and UNTIL_SERVED not in command:
            return CommandResult(0, "", "")
        key = key_of(pod, command)
        self.keys.append(key)
        code, output = {**RECORDED["healthy"], **RECORDED[self.fault]}[key]
        self.waited_s += limit_s if code == 124 else 0
        return CommandResult(code, output, "")


def lines_of(runner: RecordedPrograms, progress: list[str]) -> list[Line]:
    """Return the lines of a quick run of the two pods."""
    return measure(PODS, runner, MeasurementPlan(THRESHOLDS, DURATIONS), progress.append)


@pytest.mark.parametrize(
    ("fault", "check", "cause"),
    [
        ("wrong vlan", "reach", "no-neighbour"),
        ("wrong source routing", "route", "route"),
        ("firewall for tcp", "tcp", "no-tcp"),
        ("firewall for roce", "rping", "no-rdma"),
    ],
)
def test_fault_fails_one_line_with_its_remedy(fault: str, check: str, cause: str) -> None:
    runner = RecordedPrograms(fault)

    lines = lines_of(runner, [])

    (line,) = (line for line in lines if line.outcome is Outcome.FAILED)
    assert (line.check, line.meaning, line.remedy) == (check, *CAUSES[cause])
    assert (line.source, line.target) == ("here/ens1", "there/ens1")
    assert runner.waited_s < 90
    written = {line.source for line in lines if line.check == "write"}
    assert written == ({"here/ens1", "here/ens2"} if check == "tcp" else {"here/ens2"})


def test_manual_shows_a_report() -> None:
    report = "\n".join(as_text(lines_of(RecordedPrograms("firewall for roce"), []), verbose=False))

    assert textwrap.indent(report, "    ") in MANUAL.read_text()


def test_healthy_pair_passes_all_checks_phase_by_phase() -> None:
    runner, progress = RecordedPrograms("healthy"), list[str]()

    lines = lines_of(runner, progress)

    assert {line.outcome for line in lines} == {Outcome.PASSED}
    phases = [text.strip().partition(":")[0] for text in progress if text.startswith("  ")]
    assert phases == ["facts of 2 pods", "reach", "loss", "tcp", "rping", "write", "latency"]
    assert "pairs of NICs: 2, rounds: 1, at most 29 s" in progress
    assert progress[-1].startswith("measured in ")
    ends = {
        phase: [number for number, key in enumerate(runner.keys) if f": {program}" in key]
        for phase, program in (("tcp", "iperf3"), ("write", "ib_write_bw"), ("latency", "ib_read"))
    }
    assert max(ends["tcp"]) < min(ends["write"])
    assert max(ends["write"]) < min(ends["latency"])


def test_nic_without_a_peer_is_reported() -> None:
    pods = (PODS[0], replace(PODS[1], nics=PODS[1].nics[:1]))

    lines = measure(
        pods, RecordedPrograms("healthy"), MeasurementPlan(THRESHOLDS, DURATIONS), lambda text: None
    )

    (line,) = (line for line in lines if line.outcome is not Outcome.PASSED)
    assert (line.source, line.outcome) == ("here/ens2", Outcome.NOT_MEASURED)
    assert line.meaning == "the other pod has no NIC of this rail"


@dataclass
class Ipv6Cluster(RecordedPrograms):
    """The same programs in a cluster whose pods have IPv6 addresses only.

    Attributes:
        exchanges: command lines of perftest, which exchanges addresses on the pod network.
    """

    exchanges: list[Sequence[str]] = field(default_factory=list)

    def run(self, pod: str, command: Sequence[str], limit_s: float) -> CommandResult:
        """Return what was recorded with IPv4."""
        if any(word.startswith("ib_") for word in command):
            self.exchanges.append(command)
        recorded = [
            PODS[int(word[-1]) - 1].address if word.startswith("fd00::") else word
            for word in command
            if word != "--ipv6-addr"
        ]
        return super().run(pod, recorded, limit_s)


def test_programs_connect_over_an_ipv6_pod_network() -> None:
    pods = [replace(pod, address=f"fd00::{number}") for number, pod in enumerate(PODS, 1)]
    runner = Ipv6Cluster("healthy")

    lines = measure(pods, runner, MeasurementPlan(THRESHOLDS, DURATIONS), lambda text: None)

    assert {line.outcome for line in lines} == {Outcome.PASSED}
    assert len(runner.exchanges) >= 8  # server and client of both programs on both rails
    assert all("--ipv6-addr" in command for command in runner.exchanges)


def test_rails_of_a_pod_have_their_own_ports() -> None:
    runner = RecordedPrograms("healthy")

    lines_of(runner, [])

    ports = {
        tuple(shlex.split(key)[shlex.split(key).index(flag) + 1] for flag in ("-d", "-p"))
        for key in runner.keys
        if ": ib_" in key
    }
    assert ports == {("rxe0", "18515"), ("rxe1", "18516")}
