"""Link facts: links and filters of the calling thread's network namespace.

Numbers without a name in Python's socket module are IFLA_* and TCA_* of linux/if_link.h
and pkt_sched.h.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.errors import KernelError
from dranet_nri.inventory.attributes import readable
from dranet_nri.linux.netlink.codec import attributes, fixed, text, u8
from dranet_nri.linux.netlink.links import (
    IFLA_NETNS_IMMUTABLE,
    IFLA_PHYS_PORT_NAME,
    DumpedLink,
    dump_links,
    link_at,
    link_from,
)
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.linux.netlink.tunnels import tunnel_ends
from dranet_nri.model import Link

RTM_GETQDISC: Final = 38
RTM_GETTFILTER: Final = 46

_TRAFFIC: Final = struct.Struct("=BxHiIII")  # family, pad, index, handle, parent, info

_CLSACT_SIDES: Final = (
    0xFFFFFFF2,
    0xFFFFFFF3,
)  # TC_H_MIN_INGRESS, TC_H_MIN_EGRESS below TC_H_CLSACT


@dataclass(frozen=True, slots=True)
class HostLink:
    """A link, with facts that only the inventory needs.

    Attributes:
        port_name: IFLA_PHYS_PORT_NAME, "" if the driver has none.
        pinned: IFLA_NETNS_IMMUTABLE (Linux 6.15 and later).
        also_lower: see NetDevice.
        tunnel_ends: see linux/netlink/tunnels.py.
        unreadable: error of the read, "" on success.
    """

    link: Link
    port_name: str = ""
    pinned: bool = False
    also_lower: tuple[int, ...] = ()
    tunnel_ends: tuple[str, int] = ("", 0)
    unreadable: str = ""


def links(netlink: RtnetlinkSocket) -> tuple[HostLink, ...]:
    """Return every link of the namespace, by ascending ifindex.

    Raises:
        KernelError: the dump failed.
    """
    found = (_host_link(netlink, dumped) for dumped in dump_links(netlink, "the host"))
    return tuple(sorted(found, key=lambda dumped: dumped.link.index))


def link(netlink: RtnetlinkSocket, index: int) -> HostLink:
    """Return one link of the namespace.

    Raises:
        KernelError: ENODEV: there is none; or the code is in TOO_LARGE.
    """
    return _host_link(netlink, link_at(netlink, "read a link", index))


def tc_filters(netlink: RtnetlinkSocket) -> dict[int, tuple[str, ...]]:
    """Return ifindex -> names of the BPF classifiers on its clsact qdisc, both directions.

    Raises:
        KernelError: a dump failed.
    """
    found: dict[int, tuple[str, ...]] = {}
    for payload in netlink.dump("dump qdiscs", RTM_GETQDISC, _TRAFFIC.pack(0, 0, 0, 0, 0, 0)):
        _, _, index, *_ = fixed(_TRAFFIC, payload)
        if text(attributes(payload, _TRAFFIC.size).get(1)) == "clsact":
            found[index] = tc_filters_of(netlink, index)
    return {index: names for index, names in found.items() if names}


def tc_filters_of(netlink: RtnetlinkSocket, index: int) -> tuple[str, ...]:
    """Return the names of the BPF classifiers on a link's clsact qdisc, () without one.

    Raises:
        KernelError: a dump failed.
    """
    return tuple(sorted(set(_filters(netlink, index))))


def _filters(netlink: RtnetlinkSocket, index: int) -> Iterator[str]:
    for parent in _CLSACT_SIDES:
        header = _TRAFFIC.pack(0, 0, index, 0, parent, 0)
        for payload in netlink.dump("dump filters", RTM_GETTFILTER, header):
            values = attributes(payload, _TRAFFIC.size)
            name = text(attributes(values.get(2, b"")).get(7))  # TCA_OPTIONS, TCA_BPF_NAME
            if text(values.get(1)) == "bpf" and name:
                yield name


def _host_link(netlink: RtnetlinkSocket, dumped: DumpedLink) -> HostLink:
    try:
        return HostLink(
            _readable(link_from(dumped)),
            text(dumped.attrs.get(IFLA_PHYS_PORT_NAME)),
            u8(dumped.attrs.get(IFLA_NETNS_IMMUTABLE)) == 1,
            dumped.lowers[1:],
            tunnel_ends(netlink, dumped),
        )
    except KernelError as error:
        bus, parent = dumped.parent
        link = Link(dumped.index, dumped.name, bus=bus, parent=parent)
        return HostLink(_readable(link), unreadable=str(error))


def _readable(link: Link) -> Link:
    """Return the link with publishable names: bytes that are not UTF-8 are replaced."""
    return replace(link, name=readable(link.name), alias=readable(link.alias))
