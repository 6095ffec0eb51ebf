"""Thresholds of the measurements, by kind of NIC and link speed.

Origin: the AKS guide for InfiniBand (more than 190 Gbit/s on a NIC of 200 Gbit/s, less than 6 µs,
IPoIB above 6 Gbit/s, NCCL collectives at 180 GB/s between servers of 8 NICs).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dra_shim.verify.types import Fabric
from dranet_nri.errors import InvalidValueError

COLLECTIVES: Final = "bus bandwidth; NCCL: 90 % of a pod's NICs, at most 180; gloo: 20 % of tcp"
# name: (unit, whether a value must be above the threshold, measured value and its default)
THRESHOLDS: Final[Mapping[str, tuple[str, bool, str]]] = {
    "loss": ("%", False, "packets lost; 0.2"),
    "tcp": ("Gbit/s", True, "TCP on Ethernet; 80 % of the link speed, at most 10"),
    "ipoib": ("Gbit/s", True, "TCP on IP over InfiniBand; 6"),
    "write": ("Gbit/s", True, "RDMA writes; 95 % of the link speed"),
    "latency": ("µs", False, "RDMA reads; 6 on InfiniBand, 10 on RoCE"),
    "memlock": ("MiB", True, "limit of locked memory; 64"),
    "all-gather": ("GB/s", True, COLLECTIVES),
    "all-reduce": ("GB/s", True, COLLECTIVES),
}
WRITE_SHARE: Final = 0.95
TCP_SHARE: Final = 0.8
TCP_MOST_GBIT: Final = 10.0  # of one stream on one core
# The guide's value for 8 NICs of 200 Gbit/s. A GPU whose traffic crosses the sockets reaches 0.6.
NCCL_SHARE: Final = 0.9
NCCL_MOST_GB: Final = 180.0
GLOO_SHARE: Final = 0.2  # gloo copies and adds on the sending core


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds of a run: those of --threshold, otherwise the defaults."""

    given: Mapping[str, float]

    def of(self, name: str, fabric: Fabric, speed_gbit: float) -> float:
        """Return the threshold of a measurement, in the unit of `THRESHOLDS`.

        Args:
            name: a key of `THRESHOLDS`.
            fabric: fabric of the NIC.
            speed_gbit: speed of the link in Gbit/s; 0 (unknown) gives thresholds of 0 for rates.
        """
        if name in self.given:
            return self.given[name]
        match name:
            case "write":
                return WRITE_SHARE * speed_gbit
            case "tcp":
                return min(TCP_SHARE * speed_gbit, TCP_MOST_GBIT)
            case "latency":
                return 6.0 if fabric is Fabric.INFINIBAND else 10.0
            case _:
                return {"loss": 0.2, "ipoib": 6.0, "memlock": 64.0}[name]

    def of_collective(self, name: str, speed_gbit: float, *, nccl: bool) -> float:
        """Return the threshold of a collective operation in GB/s.

        Args:
            name: `all-gather` or `all-reduce`.
            speed_gbit: total speed of a pod's NICs in Gbit/s, 0 if unknown.
            nccl: whether the backend is NCCL on GPUs, otherwise gloo on CPUs.
        """
        if name in self.given:
            return self.given[name]
        if nccl:
            return min(NCCL_SHARE * speed_gbit / 8, NCCL_MOST_GB)
        return GLOO_SHARE * self.of("tcp", Fabric.ETHERNET, speed_gbit) / 8


def passes(name: str, value: float, threshold: float) -> bool:
    """Return whether a measured value reaches the threshold."""
    return value >= threshold if THRESHOLDS[name][1] else value <= threshold


def parse_thresholds(words: list[str]) -> Thresholds:
    """Return the thresholds of the values NAME=NUMBER of --threshold.

    Raises:
        InvalidValueError: a name is unknown, or a value is not a number.
    """
    given: dict[str, float] = {}
    for word in words:
        name, _, number = word.partition("=")
        if name not in THRESHOLDS:
            raise InvalidValueError(
                f"--threshold {word}: use NAME=NUMBER, with a NAME of {', '.join(THRESHOLDS)}"
            )
        try:
            given[name] = float(number)
        except ValueError:
            raise InvalidValueError(
                f"--threshold {word}: give a number of {THRESHOLDS[name][0]}"
            ) from None
        if not 0 <= given[name] < float("inf"):
            raise InvalidValueError(f"--threshold {word}: give 0 or a positive number")
    return Thresholds(given)
