"""Adoption of a device that is in a pod without a record: infers its state on the host.

Rules:
1. Name, MTU and MAC address were published, and are taken from the allocation.
2. State in the pod that the claim does not configure counts as inherited, except XDP and TCX
   programs: a program that the pod left would read packets of later pods.
3. The names of RDMA devices were published; an ambiguous one is not assigned.
"""

from dranet_nri.component.replace import replace
from dranet_nri.model import AllocatedDevice, Device, LinkState, RdmaLink, Route
from dranet_nri.plan.diff import missing_addresses
from dranet_nri.plan.pod_network import pod_network
from dranet_nri.plan.routes.comparison import route_identity


def adopted(pod: LinkState, allocated: AllocatedDevice) -> LinkState:
    """Return the state to restore on the host.

    Args:
        pod: its state in the pod.
        allocated: its allocation.
    """
    given = pod_network(allocated.config, LinkState(link=pod.link))
    mtu, mac = (allocated.device.attribute(f"dra.net/{name}") for name in ("mtu", "mac"))
    link = replace(
        pod.link,
        name=allocated.device.key.name,
        mtu=mtu if isinstance(mtu, int) else pod.link.mtu,
        mac=mac if isinstance(mac, str) else pod.link.mac,
        altnames=tuple(name for name in pod.link.altnames if name not in given.altnames),
        xdp=(),
    )
    return LinkState(
        link=link,
        addresses=missing_addresses(pod.addresses, given.addresses),
        routes=tuple(route for route in pod.routes if not _is_claimed(route, given.routes)),
        rules=tuple(rule for rule in pod.rules if rule not in given.rules),
        neighbours=tuple(
            neighbour for neighbour in pod.neighbours if neighbour not in given.neighbours
        ),
        tcx=(),
    )


def _is_claimed(route: Route, claimed: tuple[Route, ...]) -> bool:
    """Whether the route is claimed; its metric in the pod may differ."""
    return any(
        route_identity(replace(route, metric=given.metric)) == route_identity(given)
        for given in claimed
    )


def adopted_rdma(pod: tuple[RdmaLink, ...], device: Device) -> tuple[RdmaLink, ...]:
    """Return its RDMA devices in the pod, with their names on the host.

    Args:
        pod: RDMA devices in the pod, none of them recorded.
        device: the published device. The GUID is that of its first RDMA device.
    """
    named = [link for link in pod if link.name in device.rdma_devices]
    others = [link for link in pod if link not in named]
    lost = [name for name in device.rdma_devices if all(link.name != name for link in named)]
    if len(others) == len(lost) == 1:
        named.append(replace(others[0], name=lost[0]))
    guid = device.attribute("dra.net/nodeGUID")
    return tuple(
        link
        for link in named
        if link.name != device.rdma_devices[0] or guid in {None, link.node_guid}
    )
