"""A lower bound for a benchmark: only the netlink messages that produce the same result.

One send and one receive for each message that changes something, on sockets that are open, with
links whose numbers are known: no look-up, no check, no record, no undo.
"""

import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_interface
from typing import Final

from dranet_nri.kernel.netns import sockets_in
from dranet_nri.linux.netlink.codec import attribute
from dranet_nri.linux.netlink.rtnetlink import NETLINK_ROUTE

RTM_NEWLINK: Final = 16
RTM_NEWADDR: Final = 20
RTM_NEWROUTE: Final = 24
REQUEST_ACK: Final = 0x5
CREATE_EXCL: Final = 0x600
IFF_UP: Final = 1
IFLA_IFNAME: Final = 3
IFLA_NET_NS_FD: Final = 28
IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS = 1, 2, 8
IFA_F_NODAD: Final = 2
RTA_DST, RTA_OIF, RTA_GATEWAY = 1, 4, 5
MESSAGES: Final = 6  # for each NIC and way


@dataclass(frozen=True, slots=True)
class Wire:
    """A NIC with everything that moves with it: two addresses and a route.

    Attributes:
        index: its number, which it keeps in a namespace where nothing else has it.
    """

    name: str
    index: int
    v4: str
    v6: str
    destination: str
    gateway: str


class Side:
    """One namespace: a socket in it, and a descriptor of it."""

    def __init__(self, path: str) -> None:
        """Open a socket in the namespace."""
        self.fd = os.open(path, os.O_RDONLY)
        (self._socket,) = sockets_in(self.fd, NETLINK_ROUTE)

    def close(self) -> None:
        """Close both."""
        self._socket.close()
        os.close(self.fd)

    def do(self, kind: int, flags: int, body: bytes) -> None:
        """Send one message and wait for its acknowledgement."""
        header = struct.pack("=IHHII", 16 + len(body), kind, REQUEST_ACK | flags, 1, 0)
        self._socket.send(header + body)
        (code,) = struct.unpack_from("=i", self._socket.recv(4096), 16)
        if code:
            raise OSError(-code, f"message {kind}: {os.strerror(-code)}")


def transfer(source: Side, target: Side, wires: Sequence[Wire]) -> None:
    """Take each NIC down, move it, and give it back what the move cost it."""
    for wire in wires:
        source.do(RTM_NEWLINK, 0, _link(wire.index, 0))
        target_fd = attribute(IFLA_NET_NS_FD, struct.pack("=I", target.fd))
        name = attribute(IFLA_IFNAME, wire.name.encode() + b"\0")
        moved = struct.pack("=BxHiII", 0, 0, wire.index, 0, 0)
        source.do(RTM_NEWLINK, 0, moved + target_fd + name)
        target.do(RTM_NEWADDR, CREATE_EXCL, _address(wire.index, wire.v4))
        target.do(RTM_NEWADDR, CREATE_EXCL, _address(wire.index, wire.v6))
        target.do(RTM_NEWLINK, 0, _link(wire.index, IFF_UP))
        target.do(RTM_NEWROUTE, CREATE_EXCL, _route(wire))


def _link(index: int, flags: int) -> bytes:
    return struct.pack("=BxHiII", 0, 0, index, flags, IFF_UP)


def _address(index: int, cidr: str) -> bytes:
    interface = ip_interface(cidr)
    family = socket.AF_INET if interface.version == 4 else socket.AF_INET6
    fixed = struct.pack("=BBBBI", family, interface.network.prefixlen, 0, 0, index)
    plain = interface.ip.packed
    flags = attribute(IFA_FLAGS, struct.pack("=I", IFA_F_NODAD)) if family != 2 else b""
    return fixed + attribute(IFA_LOCAL, plain) + attribute(IFA_ADDRESS, plain) + flags


def _route(wire: Wire) -> bytes:
    network = ip_interface(wire.destination).network
    # Table main, protocol boot, scope universe, unicast: as `ip route add` says it.
    fixed = struct.pack("=BBBBBBBBI", socket.AF_INET, network.prefixlen, 0, 0, 254, 3, 0, 1, 0)
    return (
        fixed
        + attribute(RTA_DST, network.network_address.packed)
        + attribute(RTA_GATEWAY, ip_interface(wire.gateway).ip.packed)
        + attribute(RTA_OIF, struct.pack("=I", wire.index))
    )
