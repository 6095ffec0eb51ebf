"""Link identification: the link of a device among the links of two namespaces.

Rules:
1. A parent device identifies its link. Several links of one parent are distinguished by facts, the
   most stable first: port number, ifindex in the pod, permanent address, addresses, name.
2. A single remaining link is the device's, because recreated hardware may match none of the
   recorded facts. Several remaining links are reported as ambiguous.
3. A virtual device is identified by its names, and after a snapshot also by recorded facts. Another
   link may have taken its name on the host; the device may have a temporary name there, and another
   name in the pod. A daemon of the host may rename it after its return; then address and ifindex
   identify it.
4. IPoIB links exist as long as their RDMA device is in the namespace. When it moves, the kernel
   destroys its children in every namespace, and recreates the links of its other ports in the
   target namespace.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dranet_nri.model import ARPHRD_INFINIBAND, DeviceKey, Link, Ns
from dranet_nri.plan.child import is_any_child, is_any_child_on_host
from dranet_nri.plan.identity import DeviceIdentity

Place = tuple[Ns, Link]


@dataclass(frozen=True, slots=True)
class LinkLocation:
    """Location of a device's link.

    Attributes:
        host, pod: its link in each namespace, None if absent.
        ambiguous: if it is in neither, names of links of which one may be it.
    """

    host: Link | None = None
    pod: Link | None = None
    ambiguous: tuple[str, ...] = ()


def find_link(
    key: DeviceKey,
    pod_name: str,
    host: Sequence[Link],
    pod: Sequence[Link],
    identity: DeviceIdentity | None = None,
) -> LinkLocation:
    """Return the location of a device's link.

    Args:
        key: key of the device.
        pod_name: its name in the pod, "" if unknown.
        host: all links of the host's namespace, with bus, parent and port.
        pod: all links of the pod's namespace, empty without one.
        identity: its recorded identity, None without one.
    """
    if key.parent:
        return _hardware(
            key, pod_name, host, pod, identity or DeviceIdentity(0, "", frozenset(), port=key.port)
        )
    if identity is None:
        return LinkLocation(_named(host, key.name), _named(pod, pod_name))
    location = _virtual(_on_host(key, host, identity), _named(pod, pod_name), pod, identity)
    return location if location != LinkLocation() else _renamed(host, identity)


def _hardware(
    key: DeviceKey,
    pod_name: str,
    host: Sequence[Link],
    pod: Sequence[Link],
    identity: DeviceIdentity,
) -> LinkLocation:
    names = {Ns.HOST: key.name, Ns.POD: pod_name}
    below = [*_ports(Ns.HOST, host, key, identity), *_ports(Ns.POD, pod, key, identity)]
    possible = [
        (ns, link)
        for ns, link in below
        if not identity.is_another_port(link)
        and not (ns is Ns.POD and identity.is_another_in_pod(link, pod_name))
    ]
    criteria: tuple[Callable[[Ns, Link], bool], ...] = (
        lambda ns, link: ns is Ns.POD and identity.is_at_pod_index(link),
        lambda _, link: identity.has_perm_mac(link),
        lambda _, link: identity.has_mac(link),
        lambda _, link: identity.has_guid(link),
        lambda ns, link: link.name == names[ns],
    )
    for matches in criteria:
        possible = [place for place in possible if matches(*place)] or possible
    if len(possible) > 1:
        return LinkLocation(ambiguous=tuple(_place_text(ns, link) for ns, link in possible))
    places = dict(possible)
    return LinkLocation(places.get(Ns.HOST), places.get(Ns.POD))


def _ports(ns: Ns, links: Sequence[Link], key: DeviceKey, identity: DeviceIdentity) -> list[Place]:
    """Return the links of the parent device, without upper links of another one of them.

    If the device itself is such an upper link, only those are returned on the host.
    """
    below = [link for link in links if (link.bus, link.parent) == (key.bus, key.parent)]
    indexes = {link.index for link in below}
    children = [link for link in below if link.lower in indexes]
    if identity.child and ns is Ns.HOST:
        below = children
    elif not identity.child:
        own = key.name if identity.child is None else ""
        below = [link for link in below if link not in children or link.name == own]
    if ns is Ns.HOST:
        return [(ns, link) for link in below if not is_any_child_on_host(link)]
    return [
        (ns, link) for link in below if not is_any_child(link) or identity.is_at_pod_index(link)
    ]


def _on_host(key: DeviceKey, host: Sequence[Link], identity: DeviceIdentity) -> tuple[Link, ...]:
    """Return the links on the host that match a virtual device, by name or temporary name."""
    named = _named(host, key.name)
    waiting = (
        link for link in host if link is not named and identity.is_under_temporary_name(link)
    )
    return (*((named,) if named and identity.is_same(named) else ()), *waiting)


def _virtual(
    on_host: tuple[Link, ...], there: Link | None, pod: Sequence[Link], identity: DeviceIdentity
) -> LinkLocation:
    """Return the location of a virtual device with a recorded identity.

    Args:
        on_host: matching links on the host; several are ambiguous.
        there: the link with its name in the pod.
        pod: all links of the pod.
        identity: its recorded identity.
    """
    proven = next((link for link in pod if identity.is_at_pod_index(link)), None)
    if proven is not None:
        return LinkLocation(pod=proven)
    if len(on_host) > 1:
        return LinkLocation(ambiguous=tuple(_place_text(Ns.HOST, link) for link in on_host))
    here = on_host[0] if on_host else None
    there = there if there and identity.is_named(there) else None
    alike = [link for link in pod if identity.has_own_mac(link)] or identity.candidates_by_index(
        pod
    )
    if there is None and len(alike) == 1 and identity.has_mac(alike[0]):
        there = alike[0]
    if here or there:
        return LinkLocation(here, there)
    return LinkLocation(ambiguous=tuple(_place_text(Ns.POD, link) for link in alike))


def _renamed(host: Sequence[Link], identity: DeviceIdentity) -> LinkLocation:
    """Return the location of a virtual device that another daemon renamed on the host."""
    alike = [link for link in host if identity.has_own_mac(link)]
    if len(alike) == 1 and identity.has_index(alike[0]):
        return LinkLocation(host=alike[0])
    return LinkLocation(ambiguous=tuple(_place_text(Ns.HOST, link) for link in alike))


def _place_text(ns: Ns, link: Link) -> str:
    return link.name if ns is Ns.HOST else f"{link.name} (in the pod)"


def links_lost_with(own: Link | None, links: Sequence[Link]) -> tuple[str, ...]:
    """Return the sorted names of other links that leave with the device's RDMA device.

    Only an InfiniBand link has any: its children and other ports. Children of the plugin are left
    out: one that is on the host has no pod any more.

    Args:
        own: the device's link on the host, None if absent.
        links: the InfiniBand links of the host's namespace.
    """
    if own is None or own.arphrd != ARPHRD_INFINIBAND:
        return ()
    others = (link for link in links if link.index != own.index)
    return tuple(
        sorted(
            link.name
            for link in others
            if not is_any_child_on_host(link)
            and (link.lower == own.index or _share_parent(link, own))
        )
    )


def _share_parent(one: Link, other: Link) -> bool:
    return bool(one.parent) and (one.bus, one.parent) == (other.bus, other.parent)


def _named(links: Sequence[Link], name: str) -> Link | None:
    return next((link for link in links if name and link.name == name), None)
