"""Thresholds, checks of one end, and report of a verification."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from dra_shim.verify.matrix import COLOURS, draw
from dra_shim.verify.measure import MeasurementPlan, UnreadablePodError, measure
from dra_shim.verify.node_checks import check_worker, failed, passed, speed_of
from dra_shim.verify.outputs import FACTS_SCRIPT, LinkOutput, PodFacts, RdmaPortOutput
from dra_shim.verify.remedies import CAUSES
from dra_shim.verify.report import as_document, as_text
from dra_shim.verify.thresholds import THRESHOLDS, Thresholds, parse_thresholds, passes
from dra_shim.verify.types import ClaimedNic, CommandResult, Fabric, Line, Outcome, WorkerPod
from dranet_nri.errors import InvalidValueError

NIC = ClaimedNic("nic0", "net1", "10.9.0.1", "mlx5_0", Fabric.ROCE, 9000, 0)
POD = WorkerPod("verify-0", "a", "10.0.0.1", (NIC,), (0,))
GID = {3: ("0000:0000:0000:0000:0000:ffff:0a09:0001", "RoCE v2")}
LINK = LinkOutput(up=True, mtu=9000, mac="52:54:00:00:00:01", speed_gbit=200)
PORT = RdmaPortOutput(active=True, rate_gbit=200, gids=GID, pkeys=frozenset({0xFFFF}))
NO_THRESHOLDS = Thresholds({})


def facts_of(
    link: LinkOutput | None = LINK, port: RdmaPortOutput | None = PORT, **more: float
) -> PodFacts:
    """Return what a pod sees of its NIC."""
    links = {"net1": link} if link else {}
    ports = {"mlx5_0": port} if port else {}
    return PodFacts(links, ports, more.get("memlock_mib", float("inf")))


def failures(facts: PodFacts, pod: WorkerPod = POD, *, exclusive: bool = False) -> list[str]:
    """Return the checks that fail."""
    lines = check_worker(pod, facts, NO_THRESHOLDS, exclusive=exclusive)
    return [line.check for line in lines if line.outcome is Outcome.FAILED]


# --------------------------------------------------------------------------- thresholds


@pytest.mark.parametrize(
    ("name", "fabric", "speed", "threshold"),
    [
        pytest.param("write", Fabric.INFINIBAND, 200, 190, id="the guide's RDMA"),
        pytest.param("write", Fabric.INFINIBAND, 400, 380, id="NDR"),
        pytest.param("latency", Fabric.INFINIBAND, 200, 6, id="the guide's latency"),
        pytest.param("latency", Fabric.ROCE, 200, 10, id="latency of RoCE"),
        pytest.param("ipoib", Fabric.INFINIBAND, 200, 6, id="the guide's IPoIB"),
        pytest.param("tcp", Fabric.ETHERNET, 1, 0.8, id="1 Gbit/s"),
        pytest.param("tcp", Fabric.ETHERNET, 100, 10, id="one stream"),
        pytest.param("write", Fabric.ROCE, 0, 0, id="speed unknown"),
        pytest.param("loss", Fabric.ROCE, 0, 0.2, id="loss"),
    ],
)
def test_threshold_is_parsed(name: str, fabric: Fabric, speed: float, threshold: float) -> None:
    assert NO_THRESHOLDS.of(name, fabric, speed) == pytest.approx(threshold)
    assert parse_thresholds([f"{name}=7"]).of(name, fabric, speed) == 7


def test_higher_is_better_only_for_rates() -> None:
    assert passes("write", 191, 190)
    assert not passes("write", 189, 190)
    assert passes("latency", 5, 6)
    assert not passes("latency", 7, 6)


@pytest.mark.parametrize("word", ["speed=1", "write", "write=fast", "write=-1", "write=nan"])
def test_invalid_bar_is_refused(word: str) -> None:
    with pytest.raises(InvalidValueError, match=f"--threshold {word}: "):
        parse_thresholds([word])


# --------------------------------------------------------------------------- one end


def test_healthy_nic_passes() -> None:
    assert failures(facts_of(), exclusive=True) == []


@pytest.mark.parametrize(
    ("facts", "check"),
    [
        pytest.param(facts_of(link=None), "present", id="no interface"),
        pytest.param(facts_of(port=None), "present", id="no RDMA device"),
        pytest.param(facts_of(link=replace(LINK, up=False)), "link", id="no carrier"),
        pytest.param(facts_of(port=replace(PORT, active=False)), "link", id="port not active"),
        pytest.param(facts_of(link=replace(LINK, mtu=1500)), "mtu", id="MTU"),
        pytest.param(facts_of(port=replace(PORT, gids={})), "gid", id="no GID"),
        pytest.param(facts_of(memlock_mib=0.0625), "memlock", id="memlock"),
    ],
)
def test_faulty_nic_fails(facts: PodFacts, check: str) -> None:
    assert failures(facts) == [check]


def test_gpu_on_another_numa_node_is_reported() -> None:
    assert failures(facts_of(), replace(POD, gpu_numa_nodes=(1,))) == ["numa"]
    assert failures(facts_of(), replace(POD, nics=(replace(NIC, numa_node=-1),))) == []


def test_nic_without_a_near_gpu_passes_if_each_gpu_has_one() -> None:
    far = replace(NIC, numa_node=1)

    assert failures(facts_of(), replace(POD, nics=(NIC, far))) == []
    both = replace(POD, nics=(far, far), gpu_numa_nodes=(0, 1))
    assert failures(facts_of(), both) == []
    assert failures(facts_of(), replace(both, gpu_numa_nodes=(0,))) == ["numa", "numa"]


def test_rdma_devices_of_other_pods_are_reported() -> None:
    facts = facts_of()
    facts.ports["mlx5_1"] = PORT

    assert failures(facts, exclusive=True) == ["isolation"]
    assert failures(facts) == []


def test_nic_without_rdma_needs_neither_gid_nor_memlock() -> None:
    plain = replace(POD, nics=(replace(NIC, rdma="", mtu=0),))

    assert failures(facts_of(port=None, memlock_mib=0.0625), plain) == []


def test_infiniband_device_without_an_interface_passes() -> None:
    port = replace(PORT, gids={0: ("fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1")})
    nic = replace(NIC, interface="", address="", fabric=Fabric.INFINIBAND)

    assert failures(PodFacts({}, {"mlx5_0": port}, 64), replace(POD, nics=(nic,))) == []
    assert speed_of(nic, PodFacts({}, {"mlx5_0": port})) == 200
    assert speed_of(NIC, facts_of(link=replace(LINK, speed_gbit=0))) == 0


def test_causes_have_distinct_meanings() -> None:
    assert len({meaning for meaning, _ in CAUSES.values()}) == len(CAUSES)


# --------------------------------------------------------------------------- report

LINES = [
    passed("link", "a/net1", "", "up", "up"),
    failed("write", "slow", "a/net1", "b/net1", "100 Gbit/s", "190 Gbit/s", 0.53),
    failed("write", "slow", "b/net1", "c/net1", "10 Gbit/s", "190 Gbit/s", 0.05),
    Line("reach", "a/net2", "b/net2", Outcome.NOT_MEASURED, meaning="a link is down"),
]


def test_worst_pair_is_first_and_remedies_are_not_repeated() -> None:
    text = as_text(LINES, verbose=False)

    assert text[1].split()[:4] == ["failed", "write", "b/net1", "c/net1"]
    assert [line for line in text if "Remedy: " in line] == [f"  Remedy: {CAUSES['slow'][1]}."]
    assert "write (2 failed): the link is slower than its speed allows." in text
    assert text[-2:] == ["", "FAILED: 2 failed, 1 not measured, 1 passed."]
    assert "Not measured: a link is down." in text
    assert not any("passed  link" in line for line in text[:-1])


def test_healthy_report_is_one_line() -> None:
    healthy = [passed("tcp", "a/net1", "b/net1")]

    assert as_text(healthy, verbose=False) == ["PASSED: 0 failed, 0 not measured, 1 passed."]
    assert len(as_text(healthy, verbose=True)) == 4


def test_run_without_a_measured_pair_does_not_pass() -> None:
    lines = [LINES[0], LINES[-1]]

    assert as_text(lines, verbose=False)[-1] == "NOT MEASURED: 0 failed, 1 not measured, 1 passed."
    assert not as_document(lines)["passed"]


def test_durations_are_in_the_verbose_report_and_the_document() -> None:
    slow = replace(LINES[1], seconds=12.34)

    heading, row, *_ = as_text([slow, LINES[0]], verbose=True)

    assert (heading.split()[-1], row.split()[-1]) == ("SECONDS", "12.3")
    assert "SECONDS" not in as_text([slow], verbose=False)[0]
    assert as_document([slow])["checks"][0]["seconds"] == 12.3


def test_document_of_a_report_has_counts_and_remedies() -> None:
    report = as_document(LINES)

    assert report["passed"] is False
    assert report["counts"] == {"failed": 2, "notMeasured": 1, "passed": 1}
    assert report["checks"][0]["remedy"] == CAUSES["slow"][1]


def test_matrix_cell_has_the_colour_of_the_worst_check() -> None:
    root = ET.fromstring(draw([*LINES, passed("tcp", "a/net1", "b/net1")]))
    cells = {}
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        title, rect, *_ = group
        cells[title.text] = rect.get("fill")

    assert cells["write: failed 100 Gbit/s\ntcp: passed"] == COLOURS[Outcome.FAILED]
    assert cells["link: passed up"] == COLOURS[Outcome.PASSED]
    assert cells["reach: not measured"] == COLOURS[Outcome.NOT_MEASURED]


def test_matrix_of_a_large_cluster_has_cells_of_measured_pairs_only() -> None:
    names = [f"node-{node}/net{rail}" for node in range(64) for rail in range(8)]
    lines = [passed("tcp", name, names[number - 8]) for number, name in enumerate(names)]

    root = ET.fromstring(draw(lines))

    assert len(list(root.iter("{http://www.w3.org/2000/svg}g"))) == len(names)

    assert int(root.get("width", "")) < 10_000  # pixels that a viewer can show


def test_failures_of_a_large_cluster_have_a_mark() -> None:
    names = [f"node-{node}/net0" for node in range(64)]

    root = ET.fromstring(draw([failed("rping", "no-rdma", name, names[0]) for name in names]))

    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("x") == len(names)


def test_matrix_orders_nodes_and_rails_by_their_numbers() -> None:
    names = ["node-2/mlx5_2", "node-2/mlx5_10", "node-10/mlx5_0"]

    root = ET.fromstring(draw([passed("link", name) for name in reversed(names)]))

    texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in texts if text in names][::2] == names


def test_names_of_a_matrix_are_not_cut() -> None:
    source = f"{'w' * 63}/{'w' * 15}"  # the longest names of a node and an interface

    root = ET.fromstring(draw([failed("collectives", "no-collective", source, "b/net1")]))

    space = "{http://www.w3.org/2000/svg}"
    (name,) = (
        text for text in root.iter(f"{space}text") if text.text == source and len(text.attrib) == 3
    )
    assert int(name.get("x", "")) >= 6 * len(source)
    assert "collectives" in {text.text for text in root.iter(f"{space}text")}


def test_all_bars_have_defaults() -> None:
    of_one_nic = THRESHOLDS.keys() - {"all-gather", "all-reduce"}
    assert all(NO_THRESHOLDS.of(name, Fabric.ROCE, 100) > 0 for name in of_one_nic)


# Written by hand as FACTS_SCRIPT prints it: no machine of the tests has InfiniBand. Names and
# rates are those of a VM of Azure.
INFINIBAND = """memlock unlimited
link ib0 1 2044 20:00:08:f8:fe:80 200000
rdma mlx5_0 4: ACTIVE 200 Gb/sec (4X HDR)
gid mlx5_0 0 fe80:0000:0000:0000:0015:5dff:fe33:ff01 IB/RoCE v1
pkey mlx5_0 {}
pkey mlx5_0 0x7fff
end
"""


@dataclass(frozen=True)
class Partitions:
    """A runner whose pods print INFINIBAND; all that they start fails.

    Attributes:
        pkeys: of each pod, beside the default partition's, of which both are limited members.
    """

    pkeys: Mapping[str, str]

    def run(self, pod: str, command: Sequence[str], limit_s: float) -> CommandResult:
        """Return the facts, or an exit status."""
        if FACTS_SCRIPT in command:
            return CommandResult(0, INFINIBAND.format(self.pkeys[pod]), "")
        return CommandResult(1, "", "")


@pytest.mark.parametrize(
    ("pkeys", "cause"),
    [
        pytest.param(("0x8012", "0x8013"), "pkey", id="two partitions"),
        pytest.param(("0x0012", "0x0012"), "pkey", id="limited members"),
        pytest.param(("0x8012", "0x0012"), "no-rdma", id="one partition"),
    ],
)
def test_ports_of_two_partitions_are_reported(pkeys: tuple[str, str], cause: str) -> None:
    nic = ClaimedNic("nic0", "ib0", "", "mlx5_0", Fabric.INFINIBAND)
    pods = [WorkerPod(f"verify-{n}", f"node-{n}", f"10.0.0.{n}", (nic,)) for n in range(2)]
    runner = Partitions({pod.pod: pkey for pod, pkey in zip(pods, pkeys, strict=True)})

    lines = measure(pods, runner, MeasurementPlan(NO_THRESHOLDS), progress=lambda text: None)

    assert {line.remedy for line in lines if line.outcome is Outcome.FAILED} == {CAUSES[cause][1]}
    checks = {line.check for line in lines if line.outcome is Outcome.FAILED}
    assert checks == ({"pkey"} if cause == "pkey" else {"write", "latency"})
    assert {line.check for line in lines if line.seconds} >= {"pkey", *checks}


def test_infiniband_and_ethernet_are_not_compared() -> None:
    nic = ClaimedNic("nic0", "ib0", "", "mlx5_0", Fabric.INFINIBAND)
    pods = [
        WorkerPod("verify-0", "a", "10.0.0.1", (nic,)),
        WorkerPod("verify-1", "b", "10.0.0.2", (replace(nic, fabric=Fabric.ETHERNET, rdma=""),)),
    ]
    runner = Partitions({"verify-0": "0x8012", "verify-1": "0x8012"})

    lines = measure(pods, runner, MeasurementPlan(NO_THRESHOLDS), progress=lambda text: None)

    (line,) = (line for line in lines if line.target)
    assert (line.outcome, line.check) == (Outcome.NOT_MEASURED, "reach")


EFA = """
memlock unlimited
rdma rdmap0 4: ACTIVE 100 Gb/sec (4X EDR)
gid rdmap0 0 fe80:0000:0000:0000:0c96:feff:fee8:a3f5 IB/RoCE v1
end
"""


class Datagrams:
    """A runner whose pods have an EFA, on which no connection can be made."""

    def run(self, pod: str, command: Sequence[str], limit_s: float) -> CommandResult:
        """Return the facts, or the error of perftest."""
        if FACTS_SCRIPT in command:
            return CommandResult(0, EFA, "")
        return CommandResult(1, "", "Couldn't create QP")


def test_connections_of_efa_are_not_measured() -> None:
    nic = ClaimedNic("nic0", "", "", "rdmap0", Fabric.EFA)
    pods = [WorkerPod(f"verify-{n}", f"node-{n}", f"10.0.0.{n}", (nic,)) for n in range(2)]

    lines = measure(pods, Datagrams(), MeasurementPlan(NO_THRESHOLDS), progress=lambda text: None)

    assert not [line for line in lines if line.outcome is Outcome.FAILED]
    assert {(line.check, line.outcome) for line in lines if line.target} == {
        ("rdma", Outcome.NOT_MEASURED)
    }
    assert any("`fi_pingpong -p efa`" in text for text in as_text(lines, verbose=False))


@dataclass(frozen=True)
class BareImage:
    """A runner whose image has no iperf3 and no programs for RDMA."""

    def run(self, pod: str, command: Sequence[str], limit_s: float) -> CommandResult:
        """Return the facts, or that the program is missing."""
        if FACTS_SCRIPT in command:
            facts = "missing iperf3\nmissing rping\nmemlock unlimited\nend\n"
            return CommandResult(0, facts, "")
        return CommandResult(127, "", "")


@pytest.mark.parametrize(
    ("nic", "programs"),
    [
        (NIC, "iperf3, rping"),
        (replace(NIC, rdma=""), "iperf3"),
        (replace(NIC, address=""), "rping"),
    ],
)
def test_missing_program_is_not_reported_as_a_fault(nic: ClaimedNic, programs: str) -> None:
    with pytest.raises(UnreadablePodError, match=f"pod verify-0 on node a has no {programs}, and"):
        measure(
            [replace(POD, nics=(nic,))],
            BareImage(),
            MeasurementPlan(NO_THRESHOLDS),
            progress=lambda text: None,
        )


@dataclass(frozen=True)
class OneSilent(Partitions):
    """A runner of which one pod does not answer."""

    def run(self, pod: str, command: Sequence[str], limit_s: float) -> CommandResult:
        """Return half of the facts of the pod."""
        answered = super().run(pod, command, limit_s)
        return CommandResult(1, "", "no route") if pod == "verify-1" else answered


def test_pod_that_does_not_answer_does_not_end_the_verification() -> None:
    nic = ClaimedNic("nic0", "ib0", "", "mlx5_0", Fabric.INFINIBAND)
    pods = [WorkerPod(f"verify-{n}", f"node-{n}", f"10.0.0.{n}", (nic,)) for n in range(3)]
    runner = OneSilent({pod.pod: "0x8012" for pod in pods})

    lines = measure(pods, runner, MeasurementPlan(NO_THRESHOLDS), progress=lambda text: None)

    (line,) = (line for line in lines if line.check == "pod")
    assert (line.source, line.outcome) == ("node-1", Outcome.FAILED)
    assert line.meaning == "pod verify-1 on node node-1 does not answer: no route"
    assert {(line.source, line.target) for line in lines if line.target} == {
        ("node-0/ib0", "node-2/ib0")
    }


class Silent:
    """A runner whose commands reach their limit."""

    def run(self, pod: str, command: Sequence[str], limit_s: float) -> CommandResult:
        """Return half of the facts."""
        return CommandResult(124, "memlock unlimited\n", "no answer\nwithin 60 s")


def test_unresponsive_pod_is_not_reported_as_a_missing_nic() -> None:
    with pytest.raises(UnreadablePodError, match=r"verify-0 on node a .*: no answer within 60 s"):
        measure([POD], Silent(), MeasurementPlan(NO_THRESHOLDS), progress=lambda text: None)
