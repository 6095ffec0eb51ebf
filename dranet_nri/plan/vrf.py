"""The operation that makes a VRF in a pod."""

from dataclasses import dataclass

from dranet_nri.model import Ns


@dataclass(frozen=True, slots=True)
class AddVrf:
    """Make a VRF and set it up; one of that name and table that is there counts as done.

    Sockets that are bound to no VRF are reached through it as well (tcp_l3mdev_accept and
    udp_l3mdev_accept, Documentation/networking/vrf.rst).
    """

    ns: Ns
    name: str
    table: int

    def __str__(self) -> str:
        """Describe the operation."""
        return f"add VRF {self.name} table {self.table} in {self.ns}"
