"""Which of the links of two namespaces is the device.

Rules:
1. A parent identifies; a name only decides between links that share the parent.
2. A virtual device has nothing but names, and once it was touched, what it is known by. A link
   that took its name on the host meanwhile is not it; one with another name in the pod may be.
3. A link that merely shares the parent (a second port, an IPoIB child, a representor) is never
   taken for the device while the device itself is in plain sight in the other namespace.
4. IPoIB links come and go with their RDMA device. When it moves, children are destroyed, wherever
   they are, and the links of its other ports are made anew where it goes.
"""

from collections.abc import Sequence

from dranet_nri.model import DeviceKey, Link
from dranet_nri.plan.child import ALIAS
from dranet_nri.plan.difference import ARPHRD_INFINIBAND
from dranet_nri.plan.known import Known


def locate(
    key: DeviceKey,
    pod_name: str,
    host: Sequence[Link],
    pod: Sequence[Link],
    known: Known | None = None,
) -> tuple[Link | None, Link | None]:
    """Return the device's link on the host and in the pod, None where it is not.

    Args:
        key: what to look for.
        pod_name: its name in the pod as far as known, "" if unknown.
        host: every link of the host's namespace, with bus and parent filled in.
        pod: every link of the pod's namespace; empty if there is none.
        known: what a virtual device is known by, None if it was not touched.
    """
    if not key.parent:
        here, there = _named(host, key.name), _named(pod, pod_name)
        if known is None:
            return here, there
        return here if here and known.is_it(here) else None, there or _alike(pod, known)
    below_here, below_there = _below(host, key), _below(pod, key)
    exact_here, exact_there = _named(below_here, key.name), _named(below_there, pod_name)
    if exact_here or exact_there:
        return exact_here, exact_there
    return _likeliest(below_here), _likeliest(below_there)


def lost_with(own: Link | None, links: Sequence[Link]) -> tuple[str, ...]:
    """Return the names of links that are lost when the device's RDMA device leaves, sorted.

    Only an InfiniBand link has any: its children and other ports. Children that we made don't
    count: nobody has them any more, or they would not be on the host.

    Args:
        own: the device's link on the host, None if it is not there.
        links: the InfiniBand links of the host's namespace.
    """
    if own is None or own.arphrd != ARPHRD_INFINIBAND:
        return ()
    others = (each for each in links if each.index != own.index)
    return tuple(
        sorted(
            each.name
            for each in others
            if not each.alias.startswith(ALIAS)
            and (each.lower == own.index or _share_parent(each, own))
        )
    )


def _share_parent(one: Link, other: Link) -> bool:
    return bool(one.parent) and (one.bus, one.parent) == (other.bus, other.parent)


def _named(links: Sequence[Link], name: str) -> Link | None:
    return next((link for link in links if name and link.name == name), None)


def _alike(links: Sequence[Link], known: Known) -> Link | None:
    """Return the only link that may be the device under another name."""
    alike = [link for link in links if known.looks_like(link)]
    return alike[0] if len(alike) == 1 else None


def _below(links: Sequence[Link], key: DeviceKey) -> list[Link]:
    return [link for link in links if (link.bus, link.parent) == (key.bus, key.parent)]


def _likeliest(links: Sequence[Link]) -> Link | None:
    """Return the hardware link with the lowest index: the kernel made the others after it."""
    return min(links, key=lambda link: (link.kind != "", link.index), default=None)
