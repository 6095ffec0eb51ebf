"""Rate limits: the bandwidth that a claim has of a shared device, kept by the kernel.

Rules:
1. The child in the pod has a token bucket of the claimed rate. The limit holds for what the pod
   sends; the sender of what it receives has a share of its own.
2. A kernel without token buckets makes the child without a limit, and a warning says so. The
   scheduler's accounting holds nevertheless.
3. RDMA traffic bypasses queueing disciplines. A warning says so.
4. The limit ends with the child. Nothing of the parent is changed.
"""

from dataclasses import dataclass
from errno import ENOENT, EOPNOTSUPP
from typing import Final

from dranet_nri.model import Ns

NOT_LIMITED: Final = frozenset({ENOENT, EOPNOTSUPP})  # the kernel has no sch_tbf


@dataclass(frozen=True, slots=True)
class LimitRate:
    """Limit what a link sends, in place of its queueing discipline.

    Attributes:
        rate: bit/s, a multiple of 8.
    """

    ns: Ns
    name: str
    rate: int

    def __str__(self) -> str:
        """Describe the operation."""
        return f"limit link {self.name} to {self.rate} bit/s in {self.ns}"
