"""Underlays: links through which tunnels, PPPoE and storage of a network namespace send.

Rules:
1. Links count towards the endpoints of WireGuard peers and the remote ends in the forwarding
   database of VXLAN, and towards the remote ends of outgoing IPsec policies, or with the source
   address of these. The database of a VXLAN on a link of its own is not read: with an overlay
   network it has an entry for each node of the cluster.
2. The kernel reports peers and policies only to CAP_NET_ADMIN. Without it they count as absent.
3. WireGuard's messages have private keys. They are neither cached nor part of an error.
4. WireGuard is asked only if there is such a link, because the request loads its module, and the
   file of PPPoE is read only then, because a failed lookup in procfs delays the move of a device.
   A socket of IPsec loads its module, too, so it is opened only if the kernel lists the protocol.
   Policies of PF_KEY without that module count as absent.
5. A PPP link has no lower link. The kernel lists the sessions of PPPoE in a file, with a line of
   titles and with the link last in each line (pppoe_seq_show, drivers/net/ppp/pppoe.c).

Numbers without a name are those of linux/wireguard.h, xfrm.h, rtnetlink.h and neighbour.h.
"""

import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from errno import ENODEV, ENOENT, EPERM, EPROTONOSUPPORT
from pathlib import Path
from socket import AF_BRIDGE, AF_INET, AF_INET6
from typing import Final, NamedTuple

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.addresses import addresses
from dranet_nri.linux.netlink.codec import (
    address,
    attribute,
    attributes,
    fixed,
    require,
    u32,
    walk,
)
from dranet_nri.linux.netlink.generic import GENERIC, NETLINK_GENERIC, family_id
from dranet_nri.linux.netlink.links import DumpedLink
from dranet_nri.linux.netlink.protocols import LoadedProtocols
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.linux.netlink.socket import NetlinkSocket, open_socket
from dranet_nri.linux.netlink.tunnels import link_to, source_of
from dranet_nri.linux.storage import storage_connections

NETLINK_XFRM: Final = 6
PPPOE: Final = Path("/proc/thread-self/net/pppoe")

_GET_NEIGHBOUR: Final = 30
_NEIGHBOUR: Final = struct.Struct("=BxxxiHBB")  # struct ndmsg: family, ifindex, state, flags, type
_PEERS: Final = 8  # WGDEVICE_A_PEERS
_FAMILY: Final = struct.Struct("=H")
_SOCKADDR_LEN: Final = {int(AF_INET): 16, int(AF_INET6): 28}
_GET_POLICY: Final = 21
_POLICY_ID_LEN: Final = 64  # struct xfrm_userpolicy_id
# struct xfrm_userpolicy_info: of its selector both addresses with their prefix lengths; direction
_POLICY: Final = struct.Struct("=16s16s10xBB12x104xB7x")
_TEMPLATES: Final = 5  # XFRMA_TMPL
# struct xfrm_user_tmpl: remote address, family, source address, mode
_TEMPLATE: Final = struct.Struct("=16s8xH2x16s4xB15x")
_OUT: Final = 1
_TRANSPORT: Final = 0
_LINK_LOCAL: Final = b"\xfe\x80"  # no IPv4 address that is in use
_ADDRESS_LEN: Final = {int(AF_INET): 4, int(AF_INET6): 16}
# No privilege, no such protocol or family, the link is gone
_ABSENT: Final = frozenset({EPERM, EPROTONOSUPPORT, ENOENT, ENODEV})


class _Path(NamedTuple):
    """Path of packets; addresses are b"" for any, link and mark 0 for none."""

    kind: str
    remote: bytes
    source: bytes = b""
    link: int = 0
    mark: int = 0


def open_ipsec(loaded: LoadedProtocols) -> NetlinkSocket | None:
    """Open a socket for IPsec policies in the calling thread's namespace.

    Returns:
        The socket; None if the kernel has no IPsec, or its module is not loaded.
    """
    if not loaded.has(NETLINK_XFRM):
        return None
    try:
        return NetlinkSocket(open_socket(NETLINK_XFRM))
    except KernelError as error:
        if error.code not in _ABSENT:
            raise
        return None


def underlays(
    netlink: RtnetlinkSocket, links: Collection[DumpedLink], ipsec: NetlinkSocket | None
) -> Mapping[int, tuple[str, ...]]:
    """Return ifindex -> what sends through the link.

    It is "IPsec", "PPPoE", "VXLAN", "WireGuard", "iSCSI", "NFS" or "NVMe". The calling thread is in
    the namespace of the socket.

    Args:
        netlink: a socket of the namespace.
        links: its links.
        ipsec: see open_ipsec.

    Raises:
        KernelError: a request failed.
    """
    paths = {*_wireguard_paths(links), *_ipsec_paths(ipsec), *_vxlan_paths(netlink, links)}
    paths.update(_storage_paths(links))
    found: dict[int, set[str]] = defaultdict(set)
    carriers = _pppoe_carriers(links)
    for link in links:
        if link.name in carriers:
            found[link.index].add("PPPoE")
    for path in paths:
        found[path.link or _link_of(netlink, path)].add(path.kind)
    sources = {address(path.source): path.kind for path in paths if path.source}
    for index, owned in addresses(netlink).items() if sources else ():
        for plain in (one.cidr.partition("/")[0] for one in owned):
            if plain in sources:
                found[index].add(sources[plain])
    return {index: tuple(sorted(kinds)) for index, kinds in found.items() if index > 0}


def _link_of(netlink: RtnetlinkSocket, path: _Path) -> int:
    """Return the link of a path; 0 for a link-local remote, which any link may have."""
    if not path.remote or path.remote.startswith(_LINK_LOCAL):
        return 0
    return link_to(netlink, path.remote, path.source, path.mark)


def _storage_paths(links: Iterable[DumpedLink]) -> Iterator[_Path]:
    indexes = {link.name: link.index for link in links}
    for kind, remote, source, name in storage_connections():
        yield _Path(kind, remote, source, indexes.get(name, 0))


def _pppoe_carriers(links: Iterable[DumpedLink]) -> frozenset[str]:
    """Return the names of the links of PPPoE sessions."""
    if all(_kind(link) != "ppp" for link in links):
        return frozenset()
    try:
        text = PPPOE.read_text(errors="surrogateescape")
    except OSError:
        return frozenset()
    return frozenset(line.split()[-1] for line in text.splitlines()[1:] if line.strip())


def _vxlan_paths(netlink: RtnetlinkSocket, links: Iterable[DumpedLink]) -> Iterator[_Path]:
    """Yield the paths to the remote ends in the forwarding databases of VXLANs without a link."""
    for link in links:
        if _kind(link) != "vxlan" or link.lowers:
            continue
        source = source_of(link)
        request = _NEIGHBOUR.pack(AF_BRIDGE, link.index, 0, 0, 0)
        for body in netlink.dump(f"read the remote ends of {link.name}", _GET_NEIGHBOUR, request):
            _, index, *_ = fixed(_NEIGHBOUR, body)
            attrs = attributes(body, _NEIGHBOUR.size)
            if index == link.index and 1 in attrs:
                yield _Path("VXLAN", _end(attrs[1]), source, u32(attrs.get(8)))


def _wireguard_paths(links: Iterable[DumpedLink]) -> Iterator[_Path]:
    indexes = [link.index for link in links if _kind(link) == "wireguard"]
    if not indexes:
        return
    with closing(NetlinkSocket(open_socket(NETLINK_GENERIC))) as netlink, _absence():
        family = family_id(netlink, "wireguard")
        for index in indexes:
            with _absence():
                yield from _peers(netlink, family, index)


def _kind(link: DumpedLink) -> str:
    """Return the kind of a link, "" if it has none or is unreadable."""
    try:
        return link.kind[0]
    except KernelError:
        return ""


def _peers(netlink: NetlinkSocket, family: int, index: int) -> Iterator[_Path]:
    """Yield the paths to the peers of a link; only its first message has the firewall mark."""
    request = GENERIC.pack(0, 1, 0) + attribute(1, struct.pack("=I", index))
    bodies = netlink.dump(f"read the peers of link {index}", family, request)
    found = [attributes(body, GENERIC.size) for body in bodies]
    mark = next((u32(attrs[7]) for attrs in found if 7 in attrs), 0)
    for attrs in found:
        for _, peer in walk(attrs.get(_PEERS, b"")):
            endpoint = attributes(peer).get(4)
            if endpoint is not None:
                yield _towards(endpoint, mark)


def _towards(endpoint: bytes, mark: int) -> _Path:
    """Return the path to a struct sockaddr_in or sockaddr_in6."""
    (family,) = fixed(_FAMILY, endpoint)
    require(endpoint, _SOCKADDR_LEN.get(family, 0))
    if family == AF_INET6:
        return _Path("WireGuard", endpoint[8:24], link=u32(endpoint[24:28]), mark=mark)
    return _Path("WireGuard", endpoint[4:8] if family == AF_INET else b"", mark=mark)


def _ipsec_paths(ipsec: NetlinkSocket | None) -> Iterator[_Path]:
    if ipsec is None:
        return
    with _absence():
        for body in ipsec.dump("dump IPsec policies", _GET_POLICY, bytes(_POLICY_ID_LEN)):
            yield from _templates(body)


def _templates(body: bytes) -> Iterator[_Path]:
    """Yield the paths of an outgoing policy; in transport mode its own addresses are the ends."""
    require(body, _POLICY.size)
    far, near, far_prefix, near_prefix, direction = _POLICY.unpack_from(body)
    listed = attributes(body, _POLICY.size).get(_TEMPLATES, b"") if direction == _OUT else b""
    whole = listed[: len(listed) // _TEMPLATE.size * _TEMPLATE.size]
    for remote, family, source, mode in _TEMPLATE.iter_unpack(whole):
        length = _ADDRESS_LEN.get(family, 0)
        if mode == _TRANSPORT and not any(remote):
            remote = far if far_prefix == 8 * length else b""
            source = near if near_prefix == 8 * length else b""
        yield _Path("IPsec", _end(remote[:length]), _end(source[:length]))


def _end(packed: bytes) -> bytes:
    """Return an address, b"" for the unspecified one."""
    return packed if any(packed) else b""


@contextmanager
def _absence() -> Iterator[None]:
    """Suppress the errors of what is not there."""
    try:
        yield
    except KernelError as error:
        if error.code not in _ABSENT:
            raise
