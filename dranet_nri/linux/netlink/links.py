"""Links from rtnetlink, for the inventory and for attach.

Message formats: linux/rtnetlink.h, linux/if_link.h.

Rules:
1. An error in one link affects only that link.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from errno import EBADMSG, EMSGSIZE, ENOBUFS, ENODEV
from functools import cached_property
from itertools import takewhile
from types import MappingProxyType
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.codec import (
    ATTRIBUTE,
    attribute,
    attributes,
    fixed,
    octets,
    text,
    u8,
    u32,
    walk,
)
from dranet_nri.linux.netlink.decoded import DecodedMessages
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import IpoibState, Link, OffloadSizes, XdpMode, XdpProgram

RTM_GETLINK: Final = 18
RTM_GETSTATS: Final = 94
RTEXT_FILTER_SKIP_STATS: Final = 8  # and no RTEXT_FILTER_VF: a PF may have hundreds of VFs

IFF_UP: Final = 0x1
IFF_LOOPBACK: Final = 0x8
# DEBUG, NOTRAILERS, NOARP, PROMISC, ALLMULTI, MULTICAST, PORTSEL, AUTOMEDIA and DYNAMIC: set by
# administrators (__dev_change_flags, net/core/dev.c), kept by a move.
KEPT_FLAGS: Final = 0x4 | 0x20 | 0x80 | 0x100 | 0x200 | 0x1000 | 0x2000 | 0x4000 | 0x8000

IFLA_ADDRESS: Final = 1
IFLA_BROADCAST: Final = 2
IFLA_IFNAME: Final = 3
IFLA_MTU: Final = 4
IFLA_LINK: Final = 5
IFLA_MASTER: Final = 10
IFLA_TXQLEN: Final = 13
IFLA_OPERSTATE: Final = 16
IFLA_LINKMODE: Final = 17
IFLA_LINKINFO: Final = 18
IFLA_IFALIAS: Final = 20
IFLA_AF_SPEC: Final = 26
IFLA_GROUP: Final = 27
IFLA_EXT_MASK: Final = 29
IFLA_CARRIER: Final = 33
IFLA_LINK_NETNSID: Final = 37
IFLA_PHYS_PORT_NAME: Final = 38
IFLA_GSO_MAX_SEGS: Final = 40
IFLA_GSO_MAX_SIZE: Final = 41
IFLA_XDP: Final = 43
IFLA_MIN_MTU: Final = 50
IFLA_MAX_MTU: Final = 51
IFLA_PROP_LIST: Final = 52
IFLA_ALT_IFNAME: Final = 53
IFLA_PERM_ADDRESS: Final = 54
IFLA_PARENT_DEV_NAME: Final = 56
IFLA_PARENT_DEV_BUS_NAME: Final = 57
IFLA_GRO_MAX_SIZE: Final = 58
IFLA_GSO_IPV4_MAX_SIZE: Final = 63
IFLA_GRO_IPV4_MAX_SIZE: Final = 64
IFLA_NETNS_IMMUTABLE: Final = 67  # since Linux 6.15
# Attributes that a move keeps and that no one interprets here.
KEPT: Final = (IFLA_BROADCAST, IFLA_LINKMODE, IFLA_GSO_MAX_SEGS)
IFLA_INFO_KIND: Final = 1
IFLA_INFO_DATA: Final = 2
# Kinds with lower links in IFLA_INFO_DATA: IFLA_AMT_LINK; IFLA_HSR_SLAVE1, SLAVE2 and INTERLINK;
# IFLA_VXLAN_LINK (linux/amt.h, linux/if_link.h).
_LOWER_IN_DATA: Final = {"amt": (4,), "hsr": (1, 2, 8), "vxlan": (3,)}
IFLA_IPOIB_MODE: Final = 2
IFLA_IPOIB_UMCAST: Final = 3
IPOIB_MODE_DATAGRAM: Final = 0
IPOIB_MODE_CONNECTED: Final = 1
# IFLA_XDP_DRV_PROG_ID and the next two; IFLA_XDP_PROG_ID has no mode.
XDP_PROG_IDS: Final = {5: XdpMode.NATIVE, 6: XdpMode.GENERIC, 7: XdpMode.OFFLOADED}

# RFC 2863, in the order of IF_OPER_* (linux/if.h).
OPERSTATES: Final = (
    "unknown",
    "notpresent",
    "down",
    "lowerlayerdown",
    "testing",
    "dormant",
    "up",
)

Parents = Mapping[str, tuple[str, str]]  # bus and name of the parent, by link name

INFO: Final = struct.Struct("=BxHiII")  # struct ifinfomsg: family, type, index, flags, change
_U16: Final = struct.Struct("=H")
WITHOUT_STATS: Final = attribute(IFLA_EXT_MASK, struct.pack("=I", RTEXT_FILTER_SKIP_STATS))
_STATS: Final = struct.Struct("=BxHII")  # struct if_stats_msg: family, ifindex, filter
_LINK_64: Final = 1  # IFLA_STATS_LINK_64, of which every link has one
TOO_LARGE: Final = frozenset({EMSGSIZE, ENOBUFS})  # the kernel sends no message of that size
UNREADABLE: Final = TOO_LARGE | {EBADMSG}
_MAX_ATTRIBUTE: Final = 0xFFFF  # nla_len has 16 bits


@dataclass(frozen=True)
class DumpedLink:
    """A link of a dump. The fields are decoded at once, the properties when they are first read."""

    name: str
    index: int
    arphrd: int
    flags: int
    attrs: Mapping[int, bytes]

    @cached_property
    def altnames(self) -> tuple[str, ...]:
        """Return the alternative names."""
        listed = self.attrs.get(IFLA_PROP_LIST, b"")
        return tuple(text(name) for kind, name in walk(listed) if kind == IFLA_ALT_IFNAME)

    @cached_property
    def parent(self) -> tuple[str, str]:
        """Return bus and name of the parent device, "" if the kernel reports none."""
        bus = text(self.attrs.get(IFLA_PARENT_DEV_BUS_NAME))
        return bus, text(self.attrs.get(IFLA_PARENT_DEV_NAME))

    @cached_property
    def kind(self) -> tuple[str, bytes, tuple[int, ...]]:
        """Return IFLA_INFO_KIND, IFLA_INFO_DATA, and the ifindexes of the lower links.

        The lower links may be in another namespace.

        Raises:
            KernelError: EBADMSG: an attribute has a wrong length.
        """
        info = attributes(self.attrs.get(IFLA_LINKINFO, b""))
        kind, data = text(info.get(IFLA_INFO_KIND)), info.get(IFLA_INFO_DATA, b"")
        if kind not in _LOWER_IN_DATA:
            return kind, data, tuple(filter(None, [u32(self.attrs.get(IFLA_LINK))]))
        nested = attributes(data)
        lowers = (u32(nested.get(number)) for number in _LOWER_IN_DATA[kind])
        return kind, data, tuple(filter(None, lowers))

    @property
    def lowers(self) -> tuple[int, ...]:
        """Return the ifindexes of the lower links in this namespace, without the link itself.

        Raises:
            KernelError: see kind.
        """
        if IFLA_LINK_NETNSID in self.attrs:
            return ()
        return tuple(lower for lower in self.kind[2] if lower != self.index)

    @cached_property
    def outline(self) -> Link:
        """Return a link with its kind and its dependencies only, which takes a third of the time.

        Raises:
            KernelError: see link_from.
        """
        attrs = self.attrs
        bus, parent = self.parent
        return Link(
            index=self.index,
            name=self.name,
            kind=self.kind[0],
            mac=attrs.get(IFLA_ADDRESS, b"").hex(":"),
            master=u32(attrs.get(IFLA_MASTER)),
            lower=next(iter(self.lowers), 0),
            loopback=bool(self.flags & IFF_LOOPBACK),
            bus=bus,
            parent=parent,
        )


def dumped_link(body: bytes) -> DumpedLink:
    """Return the link of a message."""
    _, arphrd, index, flags, _ = fixed(INFO, body)
    attrs = _attributes(body)
    return DumpedLink(text(attrs.get(IFLA_IFNAME)), index, arphrd, flags, attrs)


_host_links: Final = DecodedMessages(dumped_link)


def _attributes(body: bytes) -> dict[int, bytes]:
    """Return the attributes of a link's message.

    Before Linux 5.18 a link may have more altnames than the 16-bit length of an attribute can
    express. So the list's end is computed from the names; else a pod could forge attributes.
    """
    if len(body) <= _MAX_ATTRIBUTE:
        return attributes(body, INFO.size)
    before = list(takewhile(lambda attr: attr[0] != IFLA_PROP_LIST, walk(body, INFO.size)))
    start = INFO.size + _length(before) + ATTRIBUTE.size
    names = takewhile(lambda attr: attr[0] == IFLA_ALT_IFNAME, walk(body, start))
    end = start + _length(names)
    return dict(before) | {IFLA_PROP_LIST: body[start:end]} | attributes(body, end)


def _length(attrs: Iterable[tuple[int, bytes]]) -> int:
    """Return the bytes of the attributes, with headers and padding."""
    return sum((ATTRIBUTE.size + len(payload) + 3) & ~3 for _, payload in attrs)


def dump_links(
    netlink: RtnetlinkSocket, where: str, max_bytes: int | None = None
) -> tuple[DumpedLink, ...]:
    """Return every link of the namespace that can be read.

    Args:
        netlink: socket of the namespace.
        where: name of the namespace in errors.
        max_bytes: limit of the dump in bytes, None for the host, whose links are cached.

    Raises:
        KernelError: E2BIG: the dump exceeds the limit; or the dump failed.
    """
    what = f"dump links in {where}"
    request = INFO.pack(0, 0, 0, 0, 0) + WITHOUT_STATS
    try:
        bodies = netlink.dump(what, RTM_GETLINK, request, max_bytes)
    except KernelError as error:
        if error.code not in TOO_LARGE:
            raise
        return tuple(_one_by_one(netlink, what))
    return _host_links.of(bodies) if max_bytes is None else tuple(map(dumped_link, bodies))


def _one_by_one(netlink: RtnetlinkSocket, what: str) -> Iterator[DumpedLink]:
    """Yield the links, read one by one, without those that the kernel sends no message for."""
    for body in netlink.dump(what, RTM_GETSTATS, _STATS.pack(0, 0, 0, _LINK_64)):
        _, _, index, _ = fixed(_STATS, body)
        try:
            yield link_at(netlink, what, index)
        except KernelError as error:
            if error.code not in UNREADABLE and not error.already_gone:
                raise


def find_link(netlink: RtnetlinkSocket, what: str, name: str) -> DumpedLink:
    """Return the link of that name or altname.

    Raises:
        KernelError: ENODEV: there is none.
    """
    named = attribute(IFLA_IFNAME, octets(name) + b"\0")
    return dumped_link(
        netlink.get(what, RTM_GETLINK, INFO.pack(0, 0, 0, 0, 0) + named + WITHOUT_STATS)
    )


def link_at(netlink: RtnetlinkSocket, what: str, index: int) -> DumpedLink:
    """Return the link with that ifindex.

    Raises:
        KernelError: ENODEV: there is none.
    """
    request = INFO.pack(0, 0, index, 0, 0) + WITHOUT_STATS
    return dumped_link(netlink.get(what, RTM_GETLINK, request))


def index_of(netlink: RtnetlinkSocket, what: str, name: str) -> int:
    """Return the ifindex of the link of that name, not altname.

    Raises:
        KernelError: ENODEV: there is none.
    """
    dumped = find_link(netlink, what, name)
    if dumped.name != name:
        raise KernelError(what, ENODEV, f"{name} is only an altname of {dumped.name}")
    return dumped.index


def links_from(
    links: Iterable[DumpedLink], parents: Parents = MappingProxyType({})
) -> Iterator[Link]:
    """Yield the fully decoded links, without unreadable ones.

    Args:
        links: as dumped.
        parents: link name -> bus and parent, if the kernel does not report them.
    """
    for dumped in links:
        try:
            yield link_from(dumped, *parents.get(dumped.name, ("", "")))
        except KernelError as error:
            if error.code != EBADMSG:
                raise


def link_from(dumped: DumpedLink, bus: str = "", parent: str = "") -> Link:
    """Return the fully decoded link; bus and parent are used if the kernel reports none.

    Raises:
        KernelError: EBADMSG: an attribute has a wrong length.
    """
    attrs = dumped.attrs
    own_bus, own_parent = dumped.parent
    state = u8(attrs.get(IFLA_OPERSTATE))
    kind, data, _ = dumped.kind
    return Link(
        index=dumped.index,
        name=dumped.name,
        kind=kind,
        arphrd=dumped.arphrd,
        mac=attrs.get(IFLA_ADDRESS, b"").hex(":"),
        mtu=u32(attrs.get(IFLA_MTU)),
        min_mtu=u32(attrs.get(IFLA_MIN_MTU)),
        max_mtu=u32(attrs.get(IFLA_MAX_MTU)),
        up=bool(dumped.flags & IFF_UP),
        carrier=u8(attrs.get(IFLA_CARRIER)) == 1,
        operstate=OPERSTATES[state] if state < len(OPERSTATES) else "unknown",
        master=u32(attrs.get(IFLA_MASTER)),
        lower=next(iter(dumped.lowers), 0),
        loopback=bool(dumped.flags & IFF_LOOPBACK),
        alias=text(attrs.get(IFLA_IFALIAS)),
        altnames=dumped.altnames,
        txqlen=u32(attrs.get(IFLA_TXQLEN)),
        sizes=_sizes(attrs),
        bus=own_bus or bus,
        parent=own_parent or parent,
        perm_mac=attrs.get(IFLA_PERM_ADDRESS, b"").hex(":"),
        flags=dumped.flags & KEPT_FLAGS,
        group=u32(attrs.get(IFLA_GROUP)),
        kept=b"".join(attribute(kind, attrs[kind]) for kind in KEPT if kind in attrs).hex(),
        xdp=_programs(attrs),
        ipoib=_ipoib(data) if kind == "ipoib" else None,
    )


def _programs(attrs: Mapping[int, bytes]) -> tuple[XdpProgram, ...]:
    nested = attributes(attrs.get(IFLA_XDP, b""))
    return tuple(
        XdpProgram(mode, u32(nested[kind])) for kind, mode in XDP_PROG_IDS.items() if kind in nested
    )


def _ipoib(data: bytes) -> IpoibState | None:
    nested = attributes(data)
    if IFLA_IPOIB_MODE not in nested or IFLA_IPOIB_UMCAST not in nested:
        return None
    (mode,), (umcast,) = (
        fixed(_U16, nested[kind]) for kind in (IFLA_IPOIB_MODE, IFLA_IPOIB_UMCAST)
    )
    return IpoibState(mode == IPOIB_MODE_CONNECTED, bool(umcast))


def _sizes(attrs: Mapping[int, bytes]) -> OffloadSizes:
    def size(kind: int) -> int | None:
        return u32(attrs[kind]) if kind in attrs else None

    return OffloadSizes(
        gso=size(IFLA_GSO_MAX_SIZE),
        gro=size(IFLA_GRO_MAX_SIZE),
        gso_ipv4=size(IFLA_GSO_IPV4_MAX_SIZE),
        gro_ipv4=size(IFLA_GRO_IPV4_MAX_SIZE),
    )
