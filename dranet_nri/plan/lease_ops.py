"""Operations that add and delete the address of a DHCP lease on a pod's link.

Rules:
1. The lifetime of the address ends with the lease, so the kernel deletes it even if the plugin is
   down (RFC 2131, section 4.4.5).
"""

from dataclasses import dataclass
from typing import Final

from dranet_nri.model import FOREVER, Address, Lease, Ns

MIN_LIFETIME_S: Final = 1  # the kernel refuses 0


@dataclass(frozen=True, slots=True)
class LeaseAddress:
    """Add the address of a lease, or update its lifetime."""

    ns: Ns
    name: str
    address: Address

    def __str__(self) -> str:
        valid_s = self.address.valid_s
        time = "forever" if valid_s == FOREVER else f"for {valid_s} s"
        return f"add address {self.address.cidr} {time} to {self.name} in {self.ns}"


@dataclass(frozen=True, slots=True)
class DropAddress:
    """Delete an address; a missing one counts as success.

    With the last IPv4 address of a link the kernel deletes the link's IPv4 routes.
    """

    ns: Ns
    name: str
    cidr: str

    def __str__(self) -> str:
        return f"delete address {self.cidr} of {self.name} in {self.ns}"


def add_lease(name: str, lease: Lease, now_s: float) -> LeaseAddress:
    """Return the operation that adds the address of a lease to a pod's link.

    Args:
        name: name of the link.
        lease: the lease.
        now_s: seconds of CLOCK_BOOTTIME.
    """
    remaining_s = (
        FOREVER if lease.lease_s == FOREVER else max(int(lease.ends_at - now_s), MIN_LIFETIME_S)
    )
    return LeaseAddress(
        Ns.POD, name, Address(lease.address, valid_s=remaining_s, preferred_s=remaining_s)
    )
