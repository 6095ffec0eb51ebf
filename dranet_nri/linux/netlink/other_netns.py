"""Upper links in other network namespaces, over links of this one.

Rules:
1. The kernel reports namespaces that have an id in this one: those with a link that came from here,
   or has its peer here. A read needs CAP_NET_ADMIN in the other namespace.
2. A namespace may end while it is read. Links that cannot be read are left out.
3. Link names are chosen by pods, and not reported. Link kinds are defined by the kernel.
"""

import struct
from collections import defaultdict
from collections.abc import Mapping, Set
from contextlib import suppress
from typing import Final, NamedTuple

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.codec import attribute, attributes, u32
from dranet_nri.linux.netlink.decoded import DecodedMessages
from dranet_nri.linux.netlink.links import (
    IFLA_LINK_NETNSID,
    INFO,
    RTM_GETLINK,
    WITHOUT_STATS,
    dumped_link,
)
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import PEER_KINDS

RTM_GETNSID: Final = 90
IFLA_TARGET_NETNSID: Final = 46
NETNSA_NSID: Final = 1
NETNSA_FD: Final = 3
MAX_DUMP: Final = 4 << 20  # bytes of a namespace's links: a pod may create any number

_GENERATION: Final = bytes(4)  # struct rtgenmsg, padded


class UpperLink(NamedTuple):
    """A link over a link of another namespace.

    Attributes:
        netns_id: id of the lower link's namespace (NETNSA_NSID).
        lower: ifindex of the lower link.
        kind: its own kind.
    """

    netns_id: bytes
    lower: int
    kind: str


def foreign_upper_kinds(netlink: RtnetlinkSocket, nsfd: int) -> Mapping[int, tuple[str, ...]]:
    """Return ifindex -> kinds of its upper links in other namespaces.

    Args:
        netlink: a socket of the namespace.
        nsfd: a descriptor of the namespace.

    Raises:
        KernelError: the ids of namespaces cannot be read.
    """
    bodies = (body for number in _ids(netlink) for body in _bodies(netlink, number))
    uppers = [upper for upper in _uppers.of(bodies) if upper is not None]
    if not uppers:
        return {}
    own = _own_id(netlink, nsfd)  # exists as soon as a link in another namespace refers to it
    found: dict[int, set[str]] = defaultdict(set)
    for upper in uppers:
        if upper.netns_id == own:
            found[upper.lower].add(upper.kind)
    return {index: tuple(sorted(kinds)) for index, kinds in found.items()}


def _ids(netlink: RtnetlinkSocket) -> Set[int]:
    bodies = netlink.dump("dump ids of network namespaces", RTM_GETNSID, _GENERATION)
    return {u32(attributes(body, len(_GENERATION)).get(NETNSA_NSID)) for body in bodies}


def _own_id(netlink: RtnetlinkSocket, nsfd: int) -> bytes:
    request = _GENERATION + attribute(NETNSA_FD, struct.pack("=I", nsfd))
    body = netlink.get("read the id of the network namespace", RTM_GETNSID, request)
    return attributes(body, len(_GENERATION)).get(NETNSA_NSID, b"")


def _bodies(netlink: RtnetlinkSocket, number: int) -> list[bytes]:
    """Return the messages of the links of a namespace, none of one that cannot be read."""
    target = attribute(IFLA_TARGET_NETNSID, struct.pack("=I", number))
    request = INFO.pack(0, 0, 0, 0, 0) + target + WITHOUT_STATS
    try:
        return netlink.dump(f"dump links of namespace {number}", RTM_GETLINK, request, MAX_DUMP)
    except KernelError:
        return []


def _upper(body: bytes) -> UpperLink | None:
    """Return the link of a message, None if it does not run over a link of another namespace."""
    with suppress(KernelError):
        dumped = dumped_link(body)
        kind, _, lowers = dumped.kind
        if lowers and kind not in PEER_KINDS and IFLA_LINK_NETNSID in dumped.attrs:
            return UpperLink(dumped.attrs[IFLA_LINK_NETNSID], lowers[0], kind)
    return None


_uppers: Final = DecodedMessages(_upper)
