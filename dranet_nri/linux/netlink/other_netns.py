"""Upper links in other network namespaces, over links of this one.

Rules:
1. The kernel reports namespaces that have an id in this one: those with a link that came from here,
   or has its peer here. A read needs CAP_NET_ADMIN in the other namespace.
2. A namespace may end while it is read. Links that cannot be read are left out.
3. Link names are chosen by pods, and not reported. Link kinds are defined by the kernel.
4. A namespace that no event concerns since its last read is not read again: a node has one for each
   pod, of which each read takes 0.1 ms. Without NetnsEvents every read reads all.
"""

import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from errno import EINVAL
from typing import Final, NamedTuple, assert_never
from weakref import finalize

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.codec import attribute, attributes, fixed, u32
from dranet_nri.linux.netlink.kept import Events, KeptFact, wait_for_changes
from dranet_nri.linux.netlink.links import (
    IFLA_LINK_NETNSID,
    INFO,
    RTM_GETLINK,
    WITHOUT_STATS,
    dumped_link,
)
from dranet_nri.linux.netlink.netns_events import (
    NETNSA_NSID,
    RTGEN_LEN,
    NetnsEvent,
    NetnsEventKind,
    open_netns_events,
)
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket
from dranet_nri.model import PEER_KINDS

RTM_GETNSID: Final = 90
IFLA_TARGET_NETNSID: Final = 46
NETNSA_FD: Final = 3
MAX_DUMP: Final = 4 << 20  # bytes of a namespace's links: a pod may create any number

_GENERATION: Final = bytes(RTGEN_LEN)


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


Known = dict[int, tuple[UpperLink, ...] | None]  # by id of the namespace, None: not readable now


class UpperLinks:
    """The upper links of one namespace's links, in other namespaces. Thread-safe.

    Attributes:
        kept: the links as they were read last; None without events: all are read again.
    """

    def __init__(self, events: Events[NetnsEvent] | None) -> None:
        """Start with no namespace read.

        Args:
            events: changes in all namespaces, None if they are not available.
        """
        self.kept = KeptFact(events, _after, _read) if events else None

    def kinds(self, netlink: RtnetlinkSocket, nsfd: int) -> Mapping[int, tuple[str, ...]]:
        """Return ifindex -> kinds of its upper links in other namespaces.

        Args:
            netlink: a socket of the namespace.
            nsfd: a descriptor of the namespace.

        Raises:
            KernelError: the ids of namespaces, or their events, cannot be read.
        """
        read = self.kept.current(netlink) if self.kept else _read(netlink, None)
        return _kinds(netlink, nsfd, {link for links in read.values() for link in links or ()})


def upper_links_here() -> UpperLinks:
    """Listen to events, and return the upper links of the calling thread's own namespace.

    Raises:
        KernelError: the kernel has no netlink.
    """
    events = open_netns_events()
    uppers = UpperLinks(events)
    if events:
        finalize(uppers, events.close)
    return uppers


def _kinds(
    netlink: RtnetlinkSocket, nsfd: int, uppers: Set[UpperLink]
) -> Mapping[int, tuple[str, ...]]:
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
    return {u32(attributes(body, RTGEN_LEN).get(NETNSA_NSID)) for body in bodies}


def _own_id(netlink: RtnetlinkSocket, nsfd: int) -> bytes:
    request = _GENERATION + attribute(NETNSA_FD, struct.pack("=I", nsfd))
    body = netlink.get("read the id of the network namespace", RTM_GETNSID, request)
    return attributes(body, RTGEN_LEN).get(NETNSA_NSID, b"")


def _after(known: Known, event: NetnsEvent) -> Known | None:
    """Return what is known after an event; namespaces that it may concern are to be read again."""
    match event.kind:
        case NetnsEventKind.LOST:
            return None
        case NetnsEventKind.OTHER:
            return known
        case NetnsEventKind.ID:
            return known | {event.number: None}
        case NetnsEventKind.LINK:
            concerned = set(_above(known, event.body))
            if event.number in known and not _is_plain(known[event.number], event.body):
                concerned.add(event.number)
            return known | dict.fromkeys(concerned) if concerned else known
        case _:
            assert_never(event.kind)


def _is_plain(uppers: tuple[UpperLink, ...] | None, body: bytes) -> bool:
    """Whether an event concerns no upper link, as most: the link of a pod appears or goes up."""
    return uppers == () and bool(body) and _upper(body) is None


def _above(known: Known, body: bytes) -> Iterator[int]:
    """Yield the namespaces with a link over one of this ifindex, which may have moved."""
    index = fixed(INFO, body)[2] if len(body) >= INFO.size else 0
    for number, uppers in known.items():
        if uppers and any(upper.lower == index for upper in uppers):
            yield number


def _read(netlink: RtnetlinkSocket, known: Known | None) -> Known:
    """Return the upper links in all namespaces with an id; known ones are not read again."""
    if known is not None and None not in known.values():
        return known
    wait_for_changes(netlink)
    found: Known = {}
    for number, uppers in (dict.fromkeys(_ids(netlink)) if known is None else known).items():
        try:
            found[number] = _links(netlink, number) if uppers is None else uppers
        except KernelError as error:
            if error.code != EINVAL:  # else no namespace has the id any more
                found[number] = None
    return found


def _links(netlink: RtnetlinkSocket, number: int) -> tuple[UpperLink, ...]:
    """Return the upper links in a namespace.

    Raises:
        KernelError: it cannot be read; EINVAL: no namespace has the id.
    """
    target = attribute(IFLA_TARGET_NETNSID, struct.pack("=I", number))
    request = INFO.pack(0, 0, 0, 0, 0) + target + WITHOUT_STATS
    what = f"dump links of namespace {number}"
    return tuple(_uppers(netlink.dump(what, RTM_GETLINK, request, MAX_DUMP)))


def _uppers(bodies: list[bytes]) -> Iterator[UpperLink]:
    return (upper for upper in map(_upper, bodies) if upper is not None)


def _upper(body: bytes) -> UpperLink | None:
    """Return the link of a message, None if it does not run over a link of another namespace."""
    with suppress(KernelError):
        dumped = dumped_link(body)
        kind, _, lowers = dumped.kind
        if lowers and kind not in PEER_KINDS and IFLA_LINK_NETNSID in dumped.attrs:
            return UpperLink(dumped.attrs[IFLA_LINK_NETNSID], lowers[0], kind)
    return None
