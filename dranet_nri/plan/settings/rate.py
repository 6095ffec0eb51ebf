"""Rate limits: a claim's bandwidth of a shared device, enforced by the kernel.

Rules:
1. The child in the pod has a token bucket of the claimed rate. It limits sent traffic; received
   traffic counts for the share of its sender.
2. On a kernel without token buckets the child has no limit, with a warning. The scheduler's
   accounting is not affected.
3. RDMA traffic bypasses queueing disciplines, which a warning reports.
4. The limit ends with the child. The parent is not changed.
"""

from dataclasses import dataclass
from errno import ENOENT, EOPNOTSUPP
from typing import Final

from dranet_nri.model import Ns

NOT_LIMITED: Final = frozenset({ENOENT, EOPNOTSUPP})  # the kernel has no sch_tbf


@dataclass(frozen=True, slots=True)
class LimitRate:
    """Limit the sent traffic of a link; replaces its queueing discipline.

    Attributes:
        rate: bit/s, a multiple of 8.
    """

    ns: Ns
    name: str
    rate: int

    def __str__(self) -> str:
        return f"limit link {self.name} to {self.rate} bit/s in {self.ns}"
