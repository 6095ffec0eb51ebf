"""Leases of IPv4 addresses from DHCP servers (RFC 2131)."""

from dataclasses import dataclass
from math import inf

from dranet_nri.model.network import FOREVER


@dataclass(frozen=True, slots=True)
class Lease:
    """An IPv4 address that a DHCP server granted for a time.

    Attributes:
        address: with its prefix length.
        server: the server's identifier (option 54), an IPv4 address.
        server_mac: link-layer address of the sender of the last answer.
        since_s: time of the request, seconds of CLOCK_BOOTTIME.
        lease_s: length in seconds; FOREVER if it does not end.
        renew_s: T1, when the client requests an extension from the server; seconds after since_s.
        rebind_s: T2, when it requests one from any server; seconds after since_s.
    """

    address: str
    server: str
    server_mac: str
    since_s: int
    lease_s: int
    renew_s: int
    rebind_s: int

    @property
    def renew_at(self) -> float:
        """Return T1 in seconds of CLOCK_BOOTTIME, inf if the lease does not end."""
        return self._at(self.renew_s)

    @property
    def rebind_at(self) -> float:
        """Return T2 in seconds of CLOCK_BOOTTIME, inf if the lease does not end."""
        return self._at(self.rebind_s)

    @property
    def ends_at(self) -> float:
        """Return the end in seconds of CLOCK_BOOTTIME, inf if the lease does not end."""
        return self._at(self.lease_s)

    def _at(self, after_s: int) -> float:
        return inf if self.lease_s == FOREVER else float(self.since_s + after_s)
