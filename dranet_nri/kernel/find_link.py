"""Link identification: the link of a device among the links of two namespaces.

Rules:
1. A parent device identifies its link. Several links of one parent are distinguished by facts, the
   most stable first: port number, index in the pod, permanent address, addresses, name.
2. The remaining link is the device's if it is the only one; hardware made anew has nothing in
   common with its recorded facts. Among several links none is guessed.
3. A virtual device has only names, and the recorded facts once it was modified. A link that took
   its name on the host meanwhile is another link; the device may have a spare name there, and
   another name in the pod. A daemon of the host may rename it as soon as it returns; then its
   address and its index identify it.
4. IPoIB links come and go with their RDMA device. When it moves, the kernel destroys its children
   in every namespace, and makes the links of its other ports anew in the target namespace.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dranet_nri.model import ARPHRD_INFINIBAND, DeviceKey, Link, Ns
from dranet_nri.plan.child import is_ours, is_ours_on_host
from dranet_nri.plan.identity import DeviceIdentity

Place = tuple[Ns, Link]


@dataclass(frozen=True, slots=True)
class LinkLocation:
    """Location of the device.

    Attributes:
        host, pod: its link there, None where it is not.
        unclear: where it is in neither, links that may be it.
    """

    host: Link | None = None
    pod: Link | None = None
    unclear: tuple[str, ...] = ()


def find_link(
    key: DeviceKey,
    pod_name: str,
    host: Sequence[Link],
    pod: Sequence[Link],
    known: DeviceIdentity | None = None,
) -> LinkLocation:
    """Find the device.

    Args:
        key: of the device to find.
        pod_name: its name in the pod as far as known, "" if unknown.
        host: every link of the host's namespace, with bus, parent and port filled in.
        pod: every link of the pod's namespace; empty if there is none.
        known: what it is known by, None if that is its key alone.
    """
    if key.parent:
        return _hardware(
            key, pod_name, host, pod, known or DeviceIdentity(0, "", frozenset(), port=key.port)
        )
    if known is None:
        return LinkLocation(_named(host, key.name), _named(pod, pod_name))
    location = _virtual(_on_host(key, host, known), _named(pod, pod_name), pod, known)
    return location if location != LinkLocation() else _renamed(host, known)


def _hardware(
    key: DeviceKey, pod_name: str, host: Sequence[Link], pod: Sequence[Link], known: DeviceIdentity
) -> LinkLocation:
    names = {Ns.HOST: key.name, Ns.POD: pod_name}
    below = [*_ports(Ns.HOST, host, key, known), *_ports(Ns.POD, pod, key, known)]
    possible = [
        (ns, link)
        for ns, link in below
        if not known.is_another_port(link)
        and not (ns is Ns.POD and known.is_another_in_pod(link, pod_name))
    ]
    tells: tuple[Callable[[Ns, Link], bool], ...] = (
        lambda ns, link: ns is Ns.POD and known.is_there(link),
        lambda _, link: known.has_perm_mac(link),
        lambda _, link: known.has_mac(link),
        lambda _, link: known.has_guid(link),
        lambda ns, link: link.name == names[ns],
    )
    for tell in tells:
        possible = [place for place in possible if tell(*place)] or possible
    if len(possible) > 1:
        return LinkLocation(unclear=tuple(_told(ns, link) for ns, link in possible))
    places = dict(possible)
    return LinkLocation(places.get(Ns.HOST), places.get(Ns.POD))


def _ports(ns: Ns, links: Sequence[Link], key: DeviceKey, known: DeviceIdentity) -> list[Place]:
    """Return the links below the parent, less those that hang on another one of them.

    A device that is such a child itself is among them, and on the host nothing else.
    """
    below = [link for link in links if (link.bus, link.parent) == (key.bus, key.parent)]
    indexes = {link.index for link in below}
    children = [link for link in below if link.lower in indexes]
    if known.child and ns is Ns.HOST:
        below = children
    elif not known.child:
        own = key.name if known.child is None else ""
        below = [link for link in below if link not in children or link.name == own]
    if ns is Ns.HOST:
        return [(ns, link) for link in below if not is_ours_on_host(link)]
    return [(ns, link) for link in below if not is_ours(link) or known.is_there(link)]


def _on_host(key: DeviceKey, host: Sequence[Link], known: DeviceIdentity) -> tuple[Link, ...]:
    """Return the links on the host that are a virtual device, which may wait for its own name."""
    named = _named(host, key.name)
    waiting = (link for link in host if link is not named and known.waits_as(link))
    return (*((named,) if named and known.is_it(named) else ()), *waiting)


def _virtual(
    homes: tuple[Link, ...], there: Link | None, pod: Sequence[Link], known: DeviceIdentity
) -> LinkLocation:
    """Find a virtual device that was modified.

    Args:
        homes: the links that are it on the host; it is none of several.
        there: the link that has its name in the pod.
        pod: every link there.
        known: what it is known by.
    """
    proven = next((link for link in pod if known.is_there(link)), None)
    if proven is not None:
        return LinkLocation(pod=proven)
    if len(homes) > 1:
        return LinkLocation(unclear=tuple(_told(Ns.HOST, link) for link in homes))
    here = homes[0] if homes else None
    there = there if there and known.is_named(there) else None
    alike = [link for link in pod if known.looks_like(link)] or known.may_be(pod)
    if there is None and len(alike) == 1 and known.has_mac(alike[0]):
        there = alike[0]
    if here or there:
        return LinkLocation(here, there)
    return LinkLocation(unclear=tuple(_told(Ns.POD, link) for link in alike))


def _renamed(host: Sequence[Link], known: DeviceIdentity) -> LinkLocation:
    """Find a virtual device that is in neither namespace under a name it was given."""
    alike = [link for link in host if known.looks_like(link)]
    if len(alike) == 1 and known.has_index(alike[0]):
        return LinkLocation(host=alike[0])
    return LinkLocation(unclear=tuple(_told(Ns.HOST, link) for link in alike))


def _told(ns: Ns, link: Link) -> str:
    return link.name if ns is Ns.HOST else f"{link.name} (in the pod)"


def links_lost_with(own: Link | None, links: Sequence[Link]) -> tuple[str, ...]:
    """Return the names of links that are lost when the device's RDMA device leaves, sorted.

    Only an InfiniBand link has any: its children and other ports. Children of the plugin don't
    count: no pod has them any more, or they would not be on the host.

    Args:
        own: the device's link on the host, None if it is not there.
        links: the InfiniBand links of the host's namespace.
    """
    if own is None or own.arphrd != ARPHRD_INFINIBAND:
        return ()
    others = (link for link in links if link.index != own.index)
    return tuple(
        sorted(
            link.name
            for link in others
            if not is_ours_on_host(link) and (link.lower == own.index or _share_parent(link, own))
        )
    )


def _share_parent(one: Link, other: Link) -> bool:
    return bool(one.parent) and (one.bus, one.parent) == (other.bus, other.parent)


def _named(links: Sequence[Link], name: str) -> Link | None:
    return next((link for link in links if name and link.name == name), None)
