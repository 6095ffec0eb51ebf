"""Links: reading them, and every operation that changes one.

Numbers and structs are those of linux/if_link.h and linux/rtnetlink.h.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from errno import EEXIST, EINVAL, ENODEV, ENOENT
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.kernel.codec import Value, attribute, attributes, encode, text, u32, walk
from dranet_nri.kernel.messages import LinkMessage
from dranet_nri.kernel.rtnetlink import Rtnetlink
from dranet_nri.model import Link, OffloadSizes
from dranet_nri.plan.ops import LinkSettings, MoveLink

RTM_NEWLINK: Final = 16
RTM_GETLINK: Final = 18
RTM_NEWLINKPROP: Final = 108
RTM_DELLINKPROP: Final = 109
NLM_F_EXCL_CREATE: Final = 0x600
RTEXT_FILTER_SKIP_STATS: Final = 8  # and no RTEXT_FILTER_VF: a PF may have hundreds of VFs

IFF_UP: Final = 0x1
IFF_LOOPBACK: Final = 0x8

IFLA_ADDRESS: Final = 1
IFLA_IFNAME: Final = 3
IFLA_MTU: Final = 4
IFLA_LINK: Final = 5
IFLA_MASTER: Final = 10
IFLA_TXQLEN: Final = 13
IFLA_OPERSTATE: Final = 16
IFLA_LINKINFO: Final = 18
IFLA_IFALIAS: Final = 20
IFLA_AF_SPEC: Final = 26
IFLA_EXT_MASK: Final = 29
IFLA_CARRIER: Final = 33
IFLA_LINK_NETNSID: Final = 37
IFLA_GSO_MAX_SIZE: Final = 41
IFLA_MIN_MTU: Final = 50
IFLA_MAX_MTU: Final = 51
IFLA_PROP_LIST: Final = 52
IFLA_ALT_IFNAME: Final = 53
IFLA_PARENT_DEV_NAME: Final = 56
IFLA_PARENT_DEV_BUS_NAME: Final = 57
IFLA_GRO_MAX_SIZE: Final = 58
IFLA_GSO_IPV4_MAX_SIZE: Final = 63
IFLA_GRO_IPV4_MAX_SIZE: Final = 64
IFLA_INFO_KIND: Final = 1

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

_INFO: Final = struct.Struct("=BxHiII")  # struct ifinfomsg: family, type, index, flags, change
_WITHOUT_STATS: Final = attribute(IFLA_EXT_MASK, struct.pack("=I", RTEXT_FILTER_SKIP_STATS))


@dataclass(frozen=True, slots=True)
class Seen:
    """A link as dumped, decoded as far as every reader needs it."""

    name: str
    index: int
    arphrd: int
    flags: int
    attrs: Mapping[int, bytes]

    @property
    def altnames(self) -> tuple[str, ...]:
        """Return the alternative names."""
        listed = self.attrs.get(IFLA_PROP_LIST, b"")
        return tuple(text(name) for kind, name in walk(listed) if kind == IFLA_ALT_IFNAME)

    @property
    def parent(self) -> tuple[str, str]:
        """Return bus and name of the parent device, "" where the kernel tells none."""
        bus = text(self.attrs.get(IFLA_PARENT_DEV_BUS_NAME))
        return bus, text(self.attrs.get(IFLA_PARENT_DEV_NAME))


def _seen(body: bytes) -> Seen:
    _, arphrd, index, flags, _ = _INFO.unpack_from(body)
    attrs = attributes(body, _INFO.size)
    return Seen(text(attrs.get(IFLA_IFNAME)), index, arphrd, flags, attrs)


def dump_links(netlink: Rtnetlink, where: str) -> tuple[Seen, ...]:
    """Return every link of the namespace."""
    request = _INFO.pack(0, 0, 0, 0, 0) + _WITHOUT_STATS
    return tuple(map(_seen, netlink.dump(f"dump links in {where}", RTM_GETLINK, request)))


def find_link(netlink: Rtnetlink, what: str, name: str) -> Seen:
    """Return the link whose name or altname it is.

    Raises:
        KernelError: ENODEV, there is none.
    """
    named = attribute(IFLA_IFNAME, name.encode() + b"\0")
    return _seen(netlink.get(what, RTM_GETLINK, _INFO.pack(0, 0, 0, 0, 0) + named + _WITHOUT_STATS))


def index_of(netlink: Rtnetlink, what: str, name: str) -> int:
    """Return the ifindex of the link of that name; an altname doesn't count.

    Raises:
        KernelError: ENODEV, there is none.
    """
    seen = find_link(netlink, what, name)
    if seen.name != name:
        raise KernelError(what, ENODEV, f"{name} is only an altname of {seen.name}")
    return seen.index


def link_from(seen: Seen, bus: str = "", parent: str = "") -> Link:
    """Return the link in full; bus and parent serve where the kernel tells none."""
    attrs = seen.attrs
    told_bus, told_parent = seen.parent
    state = attrs.get(IFLA_OPERSTATE, b"\0")[0]
    lower = 0 if IFLA_LINK_NETNSID in attrs else u32(attrs.get(IFLA_LINK))
    return Link(
        index=seen.index,
        name=seen.name,
        kind=text(attributes(attrs.get(IFLA_LINKINFO, b"")).get(IFLA_INFO_KIND)),
        arphrd=seen.arphrd,
        mac=attrs.get(IFLA_ADDRESS, b"").hex(":"),
        mtu=u32(attrs.get(IFLA_MTU)),
        min_mtu=u32(attrs.get(IFLA_MIN_MTU)),
        max_mtu=u32(attrs.get(IFLA_MAX_MTU)),
        up=bool(seen.flags & IFF_UP),
        carrier=attrs.get(IFLA_CARRIER, b"\0")[0] == 1,
        operstate=OPERSTATES[state] if state < len(OPERSTATES) else "unknown",
        master=u32(attrs.get(IFLA_MASTER)),
        lower=0 if lower == seen.index else lower,
        loopback=bool(seen.flags & IFF_LOOPBACK),
        alias=text(attrs.get(IFLA_IFALIAS)),
        altnames=seen.altnames,
        txqlen=u32(attrs.get(IFLA_TXQLEN)),
        sizes=_sizes(attrs),
        bus=told_bus or bus,
        parent=told_parent or parent,
    )


def _sizes(attrs: Mapping[int, bytes]) -> OffloadSizes:
    def size(kind: int) -> int | None:
        return u32(attrs[kind]) if kind in attrs else None

    return OffloadSizes(
        gso=size(IFLA_GSO_MAX_SIZE),
        gro=size(IFLA_GRO_MAX_SIZE),
        gso_ipv4=size(IFLA_GSO_IPV4_MAX_SIZE),
        gro_ipv4=size(IFLA_GRO_IPV4_MAX_SIZE),
    )


# --------------------------------------------------------------------------- changes


def _settings(settings: LinkSettings) -> list[tuple[str, str | int | bytes]]:
    """Return the attributes that set what is not None."""
    sizes = settings.sizes
    values: list[tuple[str, str | int | bytes | None]] = [
        ("IFLA_MTU", settings.mtu),
        ("IFLA_ADDRESS", None if settings.mac is None else link_layer(settings.mac)),
        ("IFLA_TXQLEN", settings.txqlen),
        ("IFLA_IFALIAS", settings.alias),
        ("IFLA_GSO_MAX_SIZE", sizes.gso),
        ("IFLA_GRO_MAX_SIZE", sizes.gro),
        # After the sizes above: the kernel couples both where they are small.
        ("IFLA_GSO_IPV4_MAX_SIZE", sizes.gso_ipv4),
        ("IFLA_GRO_IPV4_MAX_SIZE", sizes.gro_ipv4),
    ]
    return [(name, value) for name, value in values if value is not None]


def link_layer(mac: str) -> bytes:
    """Return the bytes of a link-layer address in colon-hex."""
    return bytes.fromhex(mac.replace(":", ""))


@dataclass(frozen=True, slots=True)
class End:
    """One end of a move: a namespace's socket and its descriptor."""

    netlink: Rtnetlink
    fd: int


def move(source: End, target: End, op: MoveLink) -> None:
    """Move, rename and set a link in one message.

    The kernel moves first; where it then cannot rename or set, the link is brought back. So a
    failed move leaves the link where it was, though bare. That a name is taken is asked before.

    Raises:
        KernelError: EEXIST, another link of the target has the name; or the kernel refused.
    """
    what = str(op)
    taken = _found(target.netlink, what, op.name)
    before = _found(source.netlink, what, op.index)
    if before is None:
        if taken is not None:
            return  # It left already, and this is its name there.
        raise KernelError(what, ENODEV, f"no link {op.index} in {op.source}")
    if taken is not None:
        raise KernelError(what, EEXIST, f"the name {op.name} is taken in {op.target}")
    attrs: list[tuple[str, Value]] = [("IFLA_NET_NS_FD", target.fd), ("IFLA_IFNAME", op.name)]
    attrs += _settings(op.settings)
    try:
        source.netlink.do(what, RTM_NEWLINK, 0, encode(LinkMessage, {"index": op.index}, attrs))
    except KernelError as error:
        _bring_back(source, target, op, before.name, error)
        raise


def _bring_back(source: End, target: End, op: MoveLink, name: str, cause: KernelError) -> None:
    """Take a link back that moved, but could not get its name or settings.

    Raises:
        KernelError: it is still in the target; says under which name, and why it went wrong.
    """
    what = str(op)
    if _found(source.netlink, what, op.index) is not None:
        return
    stray = _found(target.netlink, what, name) or _found(target.netlink, what, op.name)
    if stray is None:
        return
    body = encode(LinkMessage, {"index": stray.index}, [("IFLA_NET_NS_FD", source.fd)])
    try:
        target.netlink.do(what, RTM_NEWLINK, 0, body)
    except KernelError as error:
        detail = f"{cause.detail}; it is in {op.target} as {stray.name}: {error}"
        raise KernelError(what, cause.code, detail) from cause


def _found(netlink: Rtnetlink, what: str, name: str | int) -> Seen | None:
    """Return the link of that name, altname or index, None if there is none."""
    try:
        return find_link(netlink, what, name) if isinstance(name, str) else _at(netlink, what, name)
    except KernelError as error:
        if error.already_gone:
            return None
        raise


def _at(netlink: Rtnetlink, what: str, index: int) -> Seen:
    request = _INFO.pack(0, 0, index, 0, 0) + _WITHOUT_STATS
    return _seen(netlink.get(what, RTM_GETLINK, request))


def set_settings(netlink: Rtnetlink, what: str, index: int, settings: LinkSettings) -> None:
    """Set what is not None."""
    body = encode(LinkMessage, {"index": index}, _settings(settings))
    netlink.do(what, RTM_NEWLINK, 0, body)


def set_down(netlink: Rtnetlink, what: str, index: int) -> None:
    """Take the link down."""
    netlink.do(what, RTM_NEWLINK, 0, _INFO.pack(0, 0, index, 0, IFF_UP))


def set_up(netlink: Rtnetlink, what: str, index: int) -> None:
    """Take the link up."""
    netlink.do(what, RTM_NEWLINK, 0, _INFO.pack(0, 0, index, IFF_UP, IFF_UP))


def rename(netlink: Rtnetlink, what: str, index: int, name: str) -> None:
    """Rename the link; it has the name already: nothing happens."""
    body = encode(LinkMessage, {"index": index}, [("IFLA_IFNAME", name)])
    netlink.do(what, RTM_NEWLINK, 0, body)


def set_master(netlink: Rtnetlink, what: str, index: int, master: int) -> None:
    """Enslave the link to the link of index master, or free it where that is 0."""
    body = encode(LinkMessage, {"index": index}, [("IFLA_MASTER", master)])
    netlink.do(what, RTM_NEWLINK, 0, body)


def add_altname(netlink: Rtnetlink, what: str, index: int, altname: str) -> None:
    """Give the link an altname that it may have already."""
    try:
        netlink.do(what, RTM_NEWLINKPROP, NLM_F_EXCL_CREATE, _property(index, altname))
    except KernelError as error:
        if error.code != EEXIST or altname not in _at(netlink, what, index).altnames:
            raise


def del_altname(netlink: Rtnetlink, what: str, index: int, altname: str) -> None:
    """Take an altname from the link, which may not have it.

    The kernel says ENOENT where nothing has that name and EINVAL where another link has it.
    """
    try:
        netlink.do(what, RTM_DELLINKPROP, 0, _property(index, altname))
    except KernelError as error:
        if error.code not in {ENOENT, EINVAL}:
            raise
        if altname in _at(netlink, what, index).altnames:
            raise


def _property(index: int, altname: str) -> bytes:
    listed = {"attrs": [("IFLA_ALT_IFNAME", altname)]}
    return encode(LinkMessage, {"index": index}, [("IFLA_PROP_LIST", listed)])
