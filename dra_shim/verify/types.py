"""Values of a verification: checked NICs, pods and results."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Fabric(StrEnum):
    """Kind of network of a NIC; EFA has RDMA without the connections that perftest needs."""

    EFA = "efa"
    ETHERNET = "ethernet"
    ROCE = "roce"
    INFINIBAND = "infiniband"


class Outcome(StrEnum):
    """The result of one check."""

    FAILED = "failed"
    NOT_MEASURED = "not measured"
    PASSED = "passed"


@dataclass(frozen=True, slots=True)
class ClaimedNic:
    """A NIC that a pod claims, as claim and slice describe it.

    Attributes:
        device: name in the ResourceSlice.
        interface: name in the pod, "" without an interface.
        address: first address in the pod, without prefix length; "" if there is none.
        rdma: RDMA device, "" if there is none.
        fabric: kind of its network.
        mtu: MTU by the parameters of the claim, else by the slice, 0 if unknown.
        numa_node: NUMA node, -1 if unknown.
        card: identity of the card, which several NICs of the node may share.
    """

    device: str
    interface: str
    address: str = ""
    rdma: str = ""
    fabric: Fabric = Fabric.ETHERNET
    mtu: int = 0
    numa_node: int = -1
    card: str = ""


@dataclass(frozen=True, slots=True)
class WorkerPod:
    """A pod of the verification.

    Attributes:
        pod: name of the pod.
        node: name of its node.
        address: address on the pod network.
        nics: claimed NICs, in the order of the rails.
        gpu_numa_nodes: NUMA nodes of claimed GPUs; () without GPUs.
    """

    pod: str
    node: str
    address: str
    nics: tuple[ClaimedNic, ...]
    gpu_numa_nodes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the report.

    Attributes:
        check: name of the check.
        source: pod or NIC from which the check starts.
        target: the other end; "" for a check of one end.
        outcome: the result.
        value: measured value, with its unit.
        threshold: required value, with its unit.
        meaning: meaning of a failure; "" if the check passed.
        remedy: remedy of a failure; "" if the check passed.
        ratio: how far the threshold is reached; 0 for failures without a value, which come first.
        seconds: duration of the check; 0 if it needs only the facts of the pods.
    """

    check: str
    source: str
    target: str
    outcome: Outcome
    value: str = ""
    threshold: str = ""
    meaning: str = ""
    remedy: str = ""
    ratio: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Result of a command in a pod."""

    exit_code: int
    stdout: str
    stderr: str


class PodRunner(Protocol):
    """Runs commands in pods."""

    def run(self, pod: str, command: Sequence[str], limit_s: float) -> CommandResult:
        """Run a command to its end; exit status 124 means that it reached the limit."""
