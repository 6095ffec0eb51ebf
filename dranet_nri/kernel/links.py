"""Link operations: every request that changes a link.

Numbers and structs are those of linux/if_link.h and linux/rtnetlink.h.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from errno import EADDRNOTAVAIL, EEXIST, EINVAL, ENODEV, ENOENT
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.kernel.messages import LinkMessage
from dranet_nri.linux.netlink.codec import Value, attribute, encode, octets, u32_attribute
from dranet_nri.linux.netlink.links import (
    IFF_UP,
    IFLA_ADDRESS,
    IFLA_GRO_IPV4_MAX_SIZE,
    IFLA_GRO_MAX_SIZE,
    IFLA_GROUP,
    IFLA_GSO_IPV4_MAX_SIZE,
    IFLA_GSO_MAX_SIZE,
    IFLA_IFALIAS,
    IFLA_IFNAME,
    IFLA_INFO_DATA,
    IFLA_INFO_KIND,
    IFLA_IPOIB_MODE,
    IFLA_IPOIB_UMCAST,
    IFLA_LINKINFO,
    IFLA_MASTER,
    IFLA_MTU,
    IFLA_TXQLEN,
    IFLA_XDP,
    INFO,
    IPOIB_MODE_CONNECTED,
    IPOIB_MODE_DATAGRAM,
    KEPT_FLAGS,
    DumpedLink,
    find_link,
    link_at,
)
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import IpoibState, XdpMode
from dranet_nri.plan.ops import LinkSettings, MoveLink

RTM_NEWLINK: Final = 16
RTM_NEWLINKPROP: Final = 108
RTM_DELLINKPROP: Final = 109
NLM_F_EXCL_CREATE: Final = 0x600
IFLA_NET_NS_FD: Final = 28
NLA_F_NESTED: Final = 0x8000
IFLA_XDP_FD, IFLA_XDP_FLAGS = 1, 3
XDP_FLAGS: Final = {XdpMode.GENERIC: 2, XdpMode.NATIVE: 4, XdpMode.OFFLOADED: 8}  # XDP_FLAGS_*


def link_info(kind: str, *data: bytes) -> Value:
    """Return IFLA_LINKINFO of that kind with the attributes of IFLA_INFO_DATA."""
    return {"attrs": [("IFLA_INFO_KIND", kind), ("IFLA_INFO_DATA", b"".join(data))]}


def u16_attribute(kind: int, number: int) -> bytes:
    """Return an attribute of 16 bits."""
    return attribute(kind, struct.pack("=H", number))


def _ipoib_info(state: IpoibState | None) -> bytes | None:
    if state is None:
        return None
    mode = IPOIB_MODE_CONNECTED if state.connected else IPOIB_MODE_DATAGRAM
    data = u16_attribute(IFLA_IPOIB_MODE, mode)
    data += u16_attribute(IFLA_IPOIB_UMCAST, int(state.umcast))
    return attribute(IFLA_INFO_KIND, b"ipoib\0") + attribute(IFLA_INFO_DATA, data)


def _settings(settings: LinkSettings) -> Iterator[bytes]:
    """Yield the attributes of all settings that are not None."""
    sizes = settings.sizes
    if settings.mac is not None:
        yield attribute(IFLA_ADDRESS, link_layer(settings.mac))
    if settings.alias is not None:
        yield attribute(IFLA_IFALIAS, octets(settings.alias) + b"\0")
    numbers = (
        (IFLA_MTU, settings.mtu),
        (IFLA_TXQLEN, settings.txqlen),
        (IFLA_GROUP, settings.group),
        (IFLA_GSO_MAX_SIZE, sizes.gso),
        (IFLA_GRO_MAX_SIZE, sizes.gro),
        # After the sizes above: the kernel couples both if they are small.
        (IFLA_GSO_IPV4_MAX_SIZE, sizes.gso_ipv4),
        (IFLA_GRO_IPV4_MAX_SIZE, sizes.gro_ipv4),
    )
    for kind, number in numbers:
        if number is not None:
            yield u32_attribute(kind, number)
    ipoib = _ipoib_info(settings.ipoib)
    if ipoib is not None:
        yield attribute(IFLA_LINKINFO, ipoib)


def _body(index: int, settings: LinkSettings, *attrs: bytes) -> bytes:
    """Return a request with these attributes, then all settings that are not None."""
    flags, changed = (0, 0) if settings.flags is None else (settings.flags, KEPT_FLAGS)
    head = INFO.pack(0, 0, index, flags, changed)
    return b"".join((head, *attrs, *_settings(settings), bytes.fromhex(settings.kept or "")))


def link_layer(mac: str) -> bytes:
    """Return the bytes of a link-layer address in colon-hex."""
    return bytes.fromhex(mac.replace(":", ""))


@dataclass(frozen=True, slots=True)
class MoveEnd:
    """One end of a move: socket and descriptor of a namespace."""

    netlink: RtnetlinkSocket
    fd: int


def move(source: MoveEnd, target: MoveEnd, op: MoveLink) -> None:
    """Move, rename and set a link in one message.

    The kernel moves first; if it then refuses the name or a setting, the link is moved back. So
    after a failure the link is in the source, without its configuration. A name in use is checked
    before.

    Raises:
        KernelError: EEXIST: another link of the target has the name; or the kernel refused.
    """
    what = str(op)
    taken = _found(target.netlink, what, op.name)
    before = _found(source.netlink, what, op.index)
    if before is None:
        if taken is not None:
            return  # Already moved, with this name.
        raise KernelError(what, ENODEV, f"no link {op.index} in {op.source}")
    if taken is not None:
        raise KernelError(what, EEXIST, f"the name {op.name} is taken in {op.target}")
    where = _to(target.fd), attribute(IFLA_IFNAME, octets(op.name) + b"\0")
    try:
        source.netlink.do(what, RTM_NEWLINK, 0, _body(op.index, op.settings, *where))
    except KernelError as error:
        _move_back(source, target, op, before.name, error)
        raise _explained(error, op) from error


def _to(namespace: int) -> bytes:
    """Return the attribute that moves a link to the namespace of a descriptor."""
    return u32_attribute(IFLA_NET_NS_FD, namespace)


def _explained(error: KernelError, op: MoveLink) -> KernelError:
    """Return the error with its remedy, if the errno does not suffice."""
    if error.code != EADDRNOTAVAIL or op.settings.mac is None:
        return error
    detail = (
        f"the device does not take hardware address {op.settings.mac}: where the PF has set the"
        " VF's address, the VF keeps it; remove interface.hardwareAddr, or set it on the PF"
    )
    return KernelError(error.op, error.code, detail)


def _move_back(
    source: MoveEnd, target: MoveEnd, op: MoveLink, name: str, cause: KernelError
) -> None:
    """Move a link back that moved, but did not get its name or settings.

    Raises:
        KernelError: it is still in the target; the text has its name and the cause.
    """
    what = str(op)
    if _found(source.netlink, what, op.index) is not None:
        return
    moved = _found(target.netlink, what, name) or _found(target.netlink, what, op.name)
    if moved is None:
        return
    body = _body(moved.index, LinkSettings(), _to(source.fd))
    try:
        target.netlink.do(what, RTM_NEWLINK, 0, body)
    except KernelError as error:
        detail = f"{cause.detail}; it is in {op.target} as {moved.name}: {error}"
        raise KernelError(what, cause.code, detail) from cause


def _found(netlink: RtnetlinkSocket, what: str, name: str | int) -> DumpedLink | None:
    """Return the link of that name, altname or ifindex, None if there is none."""
    try:
        return (
            find_link(netlink, what, name)
            if isinstance(name, str)
            else link_at(netlink, what, name)
        )
    except KernelError as error:
        if error.already_gone:
            return None
        raise


def set_settings(netlink: RtnetlinkSocket, what: str, index: int, settings: LinkSettings) -> None:
    """Apply all settings that are not None."""
    netlink.do(what, RTM_NEWLINK, 0, _body(index, settings))


def detach_xdp(netlink: RtnetlinkSocket, what: str, index: int, mode: XdpMode) -> None:
    """Detach the XDP program of that mode, if there is one.

    Raises:
        KernelError: EBUSY: a BPF link attaches it, until the last descriptor of that is closed.
    """
    fields = attribute(IFLA_XDP_FD, struct.pack("=i", -1))
    fields += attribute(IFLA_XDP_FLAGS, struct.pack("=I", XDP_FLAGS[mode]))
    body = INFO.pack(0, 0, index, 0, 0) + attribute(IFLA_XDP | NLA_F_NESTED, fields)
    netlink.do(what, RTM_NEWLINK, 0, body)


def set_down(netlink: RtnetlinkSocket, what: str, index: int) -> None:
    """Set the link down."""
    netlink.do(what, RTM_NEWLINK, 0, INFO.pack(0, 0, index, 0, IFF_UP))


def set_up(netlink: RtnetlinkSocket, what: str, index: int) -> None:
    """Set the link up."""
    netlink.do(what, RTM_NEWLINK, 0, INFO.pack(0, 0, index, IFF_UP, IFF_UP))


def rename(netlink: RtnetlinkSocket, what: str, index: int, name: str) -> None:
    """Rename the link, unless it has the name."""
    named = attribute(IFLA_IFNAME, octets(name) + b"\0")
    netlink.do(what, RTM_NEWLINK, 0, _body(index, LinkSettings(), named))


def set_master(netlink: RtnetlinkSocket, what: str, index: int, master: int) -> None:
    """Set the link's master by ifindex; 0 removes it from its master."""
    body = _body(index, LinkSettings(), u32_attribute(IFLA_MASTER, master))
    netlink.do(what, RTM_NEWLINK, 0, body)


def add_altname(netlink: RtnetlinkSocket, what: str, index: int, altname: str) -> None:
    """Add an altname to the link, unless it has it."""
    try:
        netlink.do(what, RTM_NEWLINKPROP, NLM_F_EXCL_CREATE, _property(index, altname))
    except KernelError as error:
        if error.code != EEXIST or altname not in link_at(netlink, what, index).altnames:
            raise


def del_altname(netlink: RtnetlinkSocket, what: str, index: int, altname: str) -> None:
    """Delete an altname of the link, if it has it.

    The kernel returns ENOENT if no link has the name, and EINVAL if another link has it.
    """
    try:
        netlink.do(what, RTM_DELLINKPROP, 0, _property(index, altname))
    except KernelError as error:
        if error.code not in {ENOENT, EINVAL}:
            raise
        if altname in link_at(netlink, what, index).altnames:
            raise


def _property(index: int, altname: str) -> bytes:
    listed = {"attrs": [("IFLA_ALT_IFNAME", octets(altname))]}
    return encode(LinkMessage, {"index": index}, [("IFLA_PROP_LIST", listed)])
