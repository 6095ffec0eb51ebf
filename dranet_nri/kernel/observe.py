"""Observation of a device: location and full state."""

import os
from collections.abc import Collection, Sequence
from errno import E2BIG
from pathlib import Path

from dranet_nri.component.replace import replace
from dranet_nri.errors import KernelError
from dranet_nri.kernel.find_link import find_link, links_lost_with
from dranet_nri.kernel.namespace import Namespace
from dranet_nri.linux.netlink.codec import text
from dranet_nri.linux.netlink.links import (
    IFLA_ADDRESS,
    IFLA_PHYS_PORT_NAME,
    DumpedLink,
    Parents,
    links_from,
)
from dranet_nri.model import (
    ARPHRD_INFINIBAND,
    DeviceKey,
    Link,
    LinkState,
    Observed,
    Sysctl,
    is_representor,
    is_temporary_name,
)
from dranet_nri.plan.identity import DeviceIdentity


def observe(
    host: Namespace,
    pod: Namespace | None,
    key: DeviceKey,
    pod_name: str,
    sys_root: str,
    identity: DeviceIdentity | None = None,
    *,
    link_only: bool = False,
    sysctls: Collection[Sysctl] | None = None,
) -> Observed:
    """Return the device's location and state; arguments as in plan.kernel.Session.

    Raises:
        KernelError: a dump failed.
    """
    on_host = host.links()
    in_pod = _in_pod(pod, identity) if link_only else pod.links() if pod is not None else ()
    host_parents: Parents = {}
    pod_parents: Parents = {}
    if key.parent and not any(dumped.parent[1] for dumped in (*on_host, *in_pod)):
        # Before Linux 5.14 netlink has no parents. The pod's sysfs is not available.
        host_parents = sysfs_parents(sys_root, on_host)
        own = own_names(_all(in_pod), pod_name, identity)
        pod_parents = dict.fromkeys(own, (key.bus, key.parent))
    virtual = identity is not None and not key.parent
    located = find_link(
        key,
        pod_name,
        _numbered(_candidates(on_host, key, key.name, host_parents, identity), sys_root),
        _all(in_pod) if virtual else _candidates(in_pod, key, pod_name, pod_parents, identity),
        identity,
    )
    here, there = located.host, located.pod
    return Observed(
        host=host.state(here, sysctls) if here else None,
        pod=_pod_state(pod, there, link_only=link_only),
        taken_host_names=_taken(on_host, here),
        taken_pod_names=_taken(in_pod, there),
        host_rules=host.rules(),
        pod_rules=pod.rules() if pod is not None and not link_only else (),
        lost_with_rdma=links_lost_with(here, _infiniband(on_host, host_parents)),
        ambiguous=located.ambiguous,
    )


def _in_pod(pod: Namespace | None, identity: DeviceIdentity | None) -> tuple[DumpedLink, ...]:
    """Return the pod's links; above the limit, only the one with the device's ifindex."""
    if pod is None:
        return ()
    try:
        return pod.links()
    except KernelError as error:
        if error.code != E2BIG or identity is None or not identity.pod_index:
            raise
        return pod.link_at(identity.pod_index)


def _candidates(
    links: tuple[DumpedLink, ...],
    key: DeviceKey,
    name: str,
    parents: Parents,
    identity: DeviceIdentity | None,
) -> tuple[Link, ...]:
    """Return the links that may be the device, fully decoded; others, maybe hundreds, are not."""
    macs = identity.macs if identity else frozenset[str]()
    possible = (
        dumped
        for dumped in links
        if (
            not key.parent
            and (
                dumped.name == name
                or is_temporary_name(dumped.name)
                or dumped.attrs.get(IFLA_ADDRESS, b"").hex(":") in macs  # a daemon may rename it
            )
        )
        or (
            key.parent
            and key.parent in {dumped.parent[1], parents.get(dumped.name, ("", ""))[1]}
            and not is_representor(text(dumped.attrs.get(IFLA_PHYS_PORT_NAME)))
        )
    )
    return tuple(links_from(possible, parents))


def own_names(links: Sequence[Link], name: str, identity: DeviceIdentity | None) -> set[str]:
    """Return the names of links in the pod that may be the device, without known parents.

    By its ifindex there; else its name, and InfiniBand links with its GUID, because the kernel
    chooses the name of a recreated link.
    """
    identity = identity or DeviceIdentity(0, "", frozenset())
    index = identity.pod_index
    named = {link.name for link in links if index and link.index == index}
    return named or {name, *(link.name for link in links if identity.has_guid(link))}


def _numbered(links: tuple[Link, ...], sys_root: str) -> tuple[Link, ...]:
    """Return the links of the host, those with a parent device with the port number of sysfs."""
    return tuple(
        replace(link, dev_port=_dev_port(sys_root, link.name)) if link.parent else link
        for link in links
    )


def _dev_port(sys_root: str, name: str) -> int | None:
    try:
        return int(Path(sys_root, "class/net", name, "dev_port").read_text())
    except (OSError, ValueError):
        return None


def _infiniband(links: tuple[DumpedLink, ...], parents: Parents) -> tuple[Link, ...]:
    return tuple(
        links_from((dumped for dumped in links if dumped.arphrd == ARPHRD_INFINIBAND), parents)
    )


def _all(links: tuple[DumpedLink, ...]) -> tuple[Link, ...]:
    """Return all links, fully decoded; a pod has few."""
    return tuple(links_from(links))


def _pod_state(
    namespace: Namespace | None, link: Link | None, *, link_only: bool
) -> LinkState | None:
    if namespace is None or link is None:
        return None
    return LinkState(link) if link_only else namespace.state(link)


def _taken(links: tuple[DumpedLink, ...], own: Link | None) -> frozenset[str]:
    others = (dumped for dumped in links if own is None or dumped.index != own.index)
    return frozenset(name for dumped in others for name in (dumped.name, *dumped.altnames))


def sysfs_parents(sys_root: str, links: tuple[DumpedLink, ...]) -> Parents:
    """Return the parents of the host's links from sysfs, for Linux before 5.14.

    Without pathlib, which takes three times as long: a node has a link for each pod.
    """
    parents: dict[str, tuple[str, str]] = {}
    for dumped in links:
        device = f"{sys_root}/class/net/{dumped.name}/device"
        try:
            bus = os.readlink(f"{device}/subsystem")  # noqa: PTH115
            parent = os.readlink(device)  # noqa: PTH115
        except OSError:
            continue
        parents[dumped.name] = bus.rpartition("/")[2], parent.rpartition("/")[2]
    return parents
