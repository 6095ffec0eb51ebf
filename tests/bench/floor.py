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

RTM_NEWLINK, RTM_DELLINK = 16, 17
RTM_NEWADDR: Final = 20
RTM_NEWROUTE: Final = 24
RTM_NEWRULE: Final = 32
REQUEST_ACK: Final = 0x5
CREATE_EXCL: Final = 0x600
IFF_UP: Final = 1
IFLA_IFNAME, IFLA_LINK, IFLA_LINKINFO = 3, 5, 18
IFLA_NET_NS_FD: Final = 28
IFLA_INFO_KIND: Final = 1
IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS = 1, 2, 8
IFA_F_NODAD: Final = 2
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_TABLE = 1, 4, 5, 15
FRA_SRC, FRA_PRIORITY, FRA_TABLE, FRA_PROTOCOL = 2, 6, 15, 21
RTPROT_BOOT, RTPROT_STATIC = 3, 4
RT_SCOPE_LINK: Final = 253
MESSAGES: Final = 6  # for each NIC and way
RULE_PRIORITY: Final = 32000
FIRST_CHILD: Final = 9000  # ifindex


@dataclass(frozen=True, slots=True)
class ChildLink:
    """A child with one address, in the network of a table of its own.

    Attributes:
        kind: of the kernel, such as "ipvlan".
        parent: ifindex on the host.
        index: its ifindex in the pod, where nothing else has it.
    """

    kind: str
    name: str
    parent: int
    index: int
    cidr: str
    table: int


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
        route = _route(wire.destination, wire.index, RTPROT_BOOT, 0)  # as `ip route add`
        gateway = attribute(RTA_GATEWAY, ip_interface(wire.gateway).ip.packed)
        target.do(RTM_NEWROUTE, CREATE_EXCL, route + gateway)


def add_children(host: Side, pod: Side, children: Sequence[ChildLink]) -> None:
    """Create each child in the pod, and give it address, route and rule."""
    for child in children:
        host.do(RTM_NEWLINK, CREATE_EXCL, _child(child, pod.fd))
        pod.do(RTM_NEWADDR, CREATE_EXCL, _address(child.index, child.cidr))
        pod.do(RTM_NEWLINK, 0, _link(child.index, IFF_UP))
        network = str(ip_interface(child.cidr).network)
        route = _route(network, child.index, RTPROT_STATIC, RT_SCOPE_LINK)
        pod.do(RTM_NEWROUTE, CREATE_EXCL, route + _u32(RTA_TABLE, child.table))
        pod.do(RTM_NEWRULE, CREATE_EXCL, _rule(child))


def delete_children(pod: Side, children: Sequence[ChildLink]) -> None:
    """Delete each child; all but its rule goes with it."""
    for child in children:
        pod.do(RTM_DELLINK, 0, _link(child.index, 0))


def _child(child: ChildLink, netns: int) -> bytes:
    return (
        struct.pack("=BxHiII", 0, 0, child.index, 0, 0)
        + attribute(IFLA_IFNAME, child.name.encode() + b"\0")
        + _u32(IFLA_LINK, child.parent)
        + _u32(IFLA_NET_NS_FD, netns)
        + attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, child.kind.encode() + b"\0"))
    )


def _rule(child: ChildLink) -> bytes:
    # from all of 32 bits, FR_ACT_TO_TBL; the table is in an attribute
    fixed = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 32, 0, 0, 0, 0, 1, 0)
    source = ip_interface(child.cidr).ip.packed
    return (
        fixed
        + attribute(FRA_SRC, source)
        + _u32(FRA_PRIORITY, RULE_PRIORITY)
        + _u32(FRA_TABLE, child.table)
        + attribute(FRA_PROTOCOL, bytes((RTPROT_STATIC,)))
    )


def _u32(kind: int, number: int) -> bytes:
    return attribute(kind, struct.pack("=I", number))


def _link(index: int, flags: int) -> bytes:
    return struct.pack("=BxHiII", 0, 0, index, flags, IFF_UP)


def _address(index: int, cidr: str) -> bytes:
    interface = ip_interface(cidr)
    family = socket.AF_INET if interface.version == 4 else socket.AF_INET6
    fixed = struct.pack("=BBBBI", family, interface.network.prefixlen, 0, 0, index)
    plain = interface.ip.packed
    flags = attribute(IFA_FLAGS, struct.pack("=I", IFA_F_NODAD)) if family != 2 else b""
    return fixed + attribute(IFA_LOCAL, plain) + attribute(IFA_ADDRESS, plain) + flags


def _route(destination: str, index: int, protocol: int, scope: int) -> bytes:
    network = ip_interface(destination).network
    main, unicast = 254, 1
    return (
        struct.pack(
            "=BBBBBBBBI",
            *(socket.AF_INET, network.prefixlen, 0, 0, main, protocol, scope, unicast, 0),
        )
        + attribute(RTA_DST, network.network_address.packed)
        + _u32(RTA_OIF, index)
    )
