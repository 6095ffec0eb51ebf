"""Values of a verification: the NICs that are checked, and what was found."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Fabric(StrEnum):
    """The network that a NIC is on."""

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
    """A NIC that a pod has by a claim, as claim and slice describe it.

    Attributes:
        device: the name in the ResourceSlice.
        interface: the name in the pod, empty if it has no interface.
        address: the first address in the pod, without prefix length; empty if there is none.
        rdma: the RDMA device, empty if there is none.
        fabric: the network that it is on.
        mtu: what claim or slice says, 0 if neither does.
        numa_node: -1 if it is not known.
        card: what it shares with other NICs of the node, such as functions of one card.
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
        pod: its name.
        node: where it runs.
        address: on the pod network.
        nics: in the order of the rails.
        gpu_numa_nodes: of the GPUs that it claims; empty if it has none.
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
        check: which, as in the table of `remedies`.
        source: pod and NIC that the check starts from.
        target: the other end; empty for a check of one end.
        outcome: its result.
        value: what was measured.
        bar: what it must be.
        meaning: what a failure means; empty if it passed.
        remedy: what to do; empty if it passed.
        ratio: value by bar for rates, 0 to order other failures first.
        seconds: of the measurement; 0 if the facts of the pods were enough.
    """

    check: str
    source: str
    target: str
    outcome: Outcome
    value: str = ""
    bar: str = ""
    meaning: str = ""
    remedy: str = ""
    ratio: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command in a pod ended."""

    exit_code: int
    stdout: str
    stderr: str


class PodRunner(Protocol):
    """Runs commands in pods."""

    def run(self, pod: str, command: Sequence[str], limit_s: float) -> CommandResult:
        """Run a command to its end; 124 is the exit status of one that reached the limit."""
