"""Which of the links of two namespaces is the device.

Rules:
1. A parent identifies; a name only decides between links that share the parent.
2. A link that merely shares the parent (a second port, an IPoIB child, a representor) is never
   taken for the device while the device itself is in plain sight in the other namespace.
"""

from collections.abc import Sequence

from dranet_nri.model import DeviceKey, Link


def locate(
    key: DeviceKey, pod_name: str, host: Sequence[Link], pod: Sequence[Link]
) -> tuple[Link | None, Link | None]:
    """Return the device's link on the host and in the pod, None where it is not.

    Args:
        key: what to look for.
        pod_name: its name in the pod as far as known, "" if unknown.
        host: every link of the host's namespace, with bus and parent filled in.
        pod: every link of the pod's namespace; empty if there is none.
    """
    if not key.parent:
        return _named(host, key.name), _named(pod, pod_name)
    here = _below(host, key)
    there = _below(pod, key)
    exact_here, exact_there = _named(here, key.name), _named(there, pod_name)
    if exact_here or exact_there:
        return exact_here, exact_there
    return _likeliest(here), _likeliest(there)


def _named(links: Sequence[Link], name: str) -> Link | None:
    return next((link for link in links if name and link.name == name), None)


def _below(links: Sequence[Link], key: DeviceKey) -> list[Link]:
    return [link for link in links if (link.bus, link.parent) == (key.bus, key.parent)]


def _likeliest(links: Sequence[Link]) -> Link | None:
    """Return the hardware link with the lowest index: the kernel made the others after it."""
    return min(links, key=lambda link: (link.kind != "", link.index), default=None)
