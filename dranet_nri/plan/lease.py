"""The operations that give a pod's link the address of a DHCP lease, and take it away.

Rules:
1. The address has the lease's time to live, so that the kernel removes it at the end of the lease
   even while the plugin is away (RFC 2131, section 4.4.5).
"""

from dataclasses import dataclass
from typing import Final

from dranet_nri.model import FOREVER, Address, Lease, Ns

GRACE_S: Final = 1  # the least time to live; the kernel takes no 0


@dataclass(frozen=True, slots=True)
class LeaseAddress:
    """Add the address of a lease, or give it the lease's time to live if it is there."""

    ns: Ns
    name: str
    address: Address

    def __str__(self) -> str:
        """Describe the operation."""
        valid_s = self.address.valid_s
        time = "for good" if valid_s == FOREVER else f"for {valid_s} s"
        return f"add address {self.address.cidr} {time} to {self.name} in {self.ns}"


@dataclass(frozen=True, slots=True)
class DropAddress:
    """Delete an address; one that is gone counts as done.

    With the last IPv4 address of a link the kernel deletes the link's IPv4 routes.
    """

    ns: Ns
    name: str
    cidr: str

    def __str__(self) -> str:
        """Describe the operation."""
        return f"delete address {self.cidr} of {self.name} in {self.ns}"


def add_lease(name: str, lease: Lease, now_s: float) -> LeaseAddress:
    """Return the operation that gives a pod's link the address of a lease.

    Args:
        name: of the link.
        lease: the lease.
        now_s: seconds of CLOCK_BOOTTIME.
    """
    left_s = FOREVER if lease.lease_s == FOREVER else max(int(lease.ends_at - now_s), GRACE_S)
    return LeaseAddress(Ns.POD, name, Address(lease.address, valid_s=left_s, preferred_s=left_s))
