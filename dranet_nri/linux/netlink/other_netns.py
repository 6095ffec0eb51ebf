"""Upper links in other network namespaces, over links of this one.

Rules:
1. The kernel reports namespaces that have an id in this one: those with a link that came from here,
   or has its peer here. A read needs CAP_NET_ADMIN in the other namespace.
2. A namespace may end while it is read. Links that cannot be read are left out.
3. Link names are chosen by pods, and not reported. Link kinds are defined by the kernel.
4. A namespace whose links have not changed since its last read is not read again: a node has one
   for each pod, of which each read takes 0.1 ms. Without NetnsEvents every read reads all.
"""

import struct
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from typing import Final, NamedTuple, assert_never
from weakref import finalize

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.codec import attribute, attributes, u32
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
    NetnsEvents,
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


class UpperLinks:
    """The upper links of one namespace's links, in other namespaces. Thread-safe.

    Attributes:
        has_events: whether namespaces without a change are not read again.
    """

    def __init__(self, events: NetnsEvents | None) -> None:
        """Start with no namespace read.

        Args:
            events: changes in other namespaces, None if they are not available.
        """
        self._events = events
        self.has_events = events is not None
        self._lock = threading.Lock()  # not held during a dump, which may take long
        # By id of the namespace, None for one that was not read; None while the ids are unknown.
        self._known: dict[int, tuple[UpperLink, ...] | None] | None = None
        self._changes = 0

    def kinds(self, netlink: RtnetlinkSocket, nsfd: int) -> Mapping[int, tuple[str, ...]]:
        """Return ifindex -> kinds of its upper links in other namespaces.

        Args:
            netlink: a socket of the namespace.
            nsfd: a descriptor of the namespace.

        Raises:
            KernelError: the ids of namespaces, or their events, cannot be read.
        """
        with self._lock:
            for event in self._events.pending() if self._events else ():
                self._handle(event)
            known, changes = self._known, self._changes
        read = dict(dict.fromkeys(_ids(netlink)) if known is None else known)
        read |= {number: _read(netlink, number) for number, links in read.items() if links is None}
        with self._lock:
            # Else another thread received events of namespaces that were read here before.
            if self._events and self._changes == changes:
                self._known = read  # an event since the read is still in the queue
        return _kinds(netlink, nsfd, {link for links in read.values() for link in links or ()})

    def _handle(self, event: NetnsEvent) -> None:
        known, number = self._known, event.number
        if known is None:
            self._changes += 1
            return
        if event.kind is NetnsEventKind.LINK and (
            number not in known or (known[number] == () and _upper(event.body) is None)
        ):
            return  # most events: the link of a pod appears or gets its carrier
        self._changes += 1
        match event.kind:
            case NetnsEventKind.LOST:
                self._known = None
            case NetnsEventKind.OLD_ID:
                self._known = {key: links for key, links in known.items() if key != number}
            case NetnsEventKind.LINK | NetnsEventKind.NEW_ID:
                self._known = known | {number: None}
            case _:
                assert_never(event.kind)


def upper_links_here() -> UpperLinks:
    """Return the upper links of the calling thread's own namespace.

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


def _read(netlink: RtnetlinkSocket, number: int) -> tuple[UpperLink, ...] | None:
    """Return the upper links in a namespace, None if it cannot be read."""
    target = attribute(IFLA_TARGET_NETNSID, struct.pack("=I", number))
    request = INFO.pack(0, 0, 0, 0, 0) + target + WITHOUT_STATS
    try:
        bodies = netlink.dump(f"dump links of namespace {number}", RTM_GETLINK, request, MAX_DUMP)
    except KernelError:
        return None
    return tuple(_uppers(bodies))


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
