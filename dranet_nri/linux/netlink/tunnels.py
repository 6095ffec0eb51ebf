"""Tunnels: the address from which one sends, and the link through which it reaches its remote end.

Rules:
1. A tunnel that names its lower link has no route of its own; that link is in Link.lower.
2. The kernel's own lookup finds the link, with policy rules for the source and the mark.

Numbers without a name are RTA_* of linux/rtnetlink.h.
"""

import struct
from collections.abc import Mapping
from errno import EACCES, EAFNOSUPPORT, EHOSTUNREACH, EINVAL, ENETUNREACH, ENOENT, EOPNOTSUPP
from socket import AF_INET, AF_INET6
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.codec import address, attribute, attributes, u32
from dranet_nri.linux.netlink.links import DumpedLink
from dranet_nri.linux.netlink.routes import RTM_GETROUTE
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket

# Attributes in IFLA_INFO_DATA by kind, of the source, the remote address and the mark, 0 for none:
# IFLA_VXLAN_LOCAL, LOCAL6, GROUP, GROUP6, IFLA_GENEVE_REMOTE, REMOTE6 (linux/if_link.h);
# IFLA_GRE_LOCAL, REMOTE, FWMARK, of IFLA_IPTUN_ and IFLA_VTI_ the same (linux/if_tunnel.h).
_GRE: Final = ("gre", "gretap", "erspan", "ip6gre", "ip6gretap", "ip6erspan")
_ENDS: Final[Mapping[str, tuple[tuple[int, ...], tuple[int, ...], int]]] = {
    "vxlan": ((4, 17), (2, 16), 0),
    "geneve": ((), (2, 7), 0),
    **dict.fromkeys(_GRE, ((6,), (7,), 20)),
    **dict.fromkeys(("ipip", "sit", "ip6tnl"), ((2,), (3,), 20)),
    **dict.fromkeys(("vti", "vti6"), ((4,), (5,), 6)),
}
UNREACHABLE: Final = -1
_ROUTE: Final = struct.Struct("=BBBBBBBBI")  # family, dst len, src len, tos, table, …, type, flags
# No route; a route that refuses; a source that is no address of the host; no such family.
_NO_ROUTE: Final = frozenset(
    {EACCES, EAFNOSUPPORT, EHOSTUNREACH, EINVAL, ENETUNREACH, ENOENT, EOPNOTSUPP}
)


def tunnel_ends(netlink: RtnetlinkSocket, dumped: DumpedLink) -> tuple[str, int]:
    """Return a tunnel's source address, and the ifindex of the link towards its remote end.

    The address is "" for any. The ifindex is UNREACHABLE without a route, and 0 for none or several
    remote ends, or a lower link that is named. For a link that is no tunnel they are "" and 0.

    Args:
        netlink: socket of the link's namespace.
        dumped: the link.

    Raises:
        KernelError: EBADMSG: an attribute has a wrong length; or the lookup failed.
    """
    kind, data, lowers = dumped.kind
    if kind not in _ENDS:
        return "", 0
    attrs = attributes(data)
    source, remote = source_of(dumped), _first(attrs, _ENDS[kind][1])
    mark = u32(attrs.get(_ENDS[kind][2]))
    over = link_to(netlink, remote, source, mark) if remote and not lowers else 0
    return address(source or None), over


def source_of(tunnel: DumpedLink) -> bytes:
    """Return the source address of a tunnel, b"" for any.

    Raises:
        KernelError: EBADMSG: an attribute has a wrong length.
    """
    kind, data, _ = tunnel.kind
    return _first(attributes(data), _ENDS[kind][0])


def _first(attrs: Mapping[int, bytes], numbers: tuple[int, ...]) -> bytes:
    """Return the first of these attributes that is an address other than the unspecified one."""
    return next((attrs[number] for number in numbers if any(attrs.get(number, b""))), b"")


def link_to(netlink: RtnetlinkSocket, remote: bytes, source: bytes = b"", mark: int = 0) -> int:
    """Return the ifindex of the link towards an address, UNREACHABLE without a route.

    Args:
        netlink: socket of the namespace.
        remote: the address.
        source: the source address, b"" for any.
        mark: the firewall mark of the packets, 0 for none.

    Raises:
        KernelError: the lookup failed.
    """
    family = AF_INET if len(remote) == 4 else AF_INET6
    request = _ROUTE.pack(family, 8 * len(remote), 8 * len(source), 0, 0, 0, 0, 0, 0)
    request += attribute(1, remote) + (attribute(2, source) if source else b"")
    request += attribute(16, struct.pack("=I", mark)) if mark else b""
    try:
        body = netlink.get("look up the route of a tunnel", RTM_GETROUTE, request)
    except KernelError as error:
        if error.code in _NO_ROUTE:
            return UNREACHABLE
        raise
    return u32(attributes(body, _ROUTE.size).get(4))
