"""Operation that creates a VRF in a pod."""

from dataclasses import dataclass

from dranet_nri.model import Ns


@dataclass(frozen=True, slots=True)
class AddVrf:
    """Create a VRF and set it up; an existing one of this name and table counts as success.

    Sockets outside the VRF also accept its traffic (tcp_l3mdev_accept and udp_l3mdev_accept,
    Documentation/networking/vrf.rst).
    """

    ns: Ns
    name: str
    table: int

    def __str__(self) -> str:
        return f"add VRF {self.name} table {self.table} in {self.ns}"
