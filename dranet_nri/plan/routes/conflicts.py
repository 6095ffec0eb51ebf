"""Route conflicts: distinct routes for a pod's devices, beside those that the pod has.

Rules:
1. Several devices of a pod may have the same desired route, such as those of a request with a
   count. Each gets its own metric: the first device is preferred, the others are backups. Existing
   routes keep their metric.
2. If a route of the cluster network, or the connected route of an address, has the key of a claimed
   route, that gets the next free metric, with a warning. An inherited one is left out.
3. A route that equals the connected route of the device's own address is left out: the kernel adds
   it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.model import Route
from dranet_nri.plan.pod_network import PodNetwork
from dranet_nri.plan.routes.comparison import RouteKey, connected, interface_of, route_key

NO_LINK: Final = "a route of the pod"
OF_ADDRESS: Final = "an address of the pod's NICs"


@dataclass(slots=True)
class _UsedKeys:
    """Route keys in use in the pod.

    Attributes:
        owners: key -> number of the device with such a route.
        taken: key -> text of another owner.
        assigned: keys of the routes of this plan.
    """

    owners: Mapping[RouteKey, int]
    taken: Mapping[RouteKey, str]
    assigned: set[RouteKey] = field(default_factory=set)

    def next_free(self, key: RouteKey, device: int) -> RouteKey:
        """Return the key, or the next free one for the device, with a higher metric."""
        while key in self.assigned or key in self.taken or self.owners.get(key, device) != device:
            key = (*key[:3], key[3] + 1)
        return key


def separate_routes(
    networks: Sequence[PodNetwork],
    now: Iterable[Iterable[Route]],
    taken: Mapping[RouteKey, str],
) -> tuple[PodNetwork, ...]:
    """Return the networks of one pod's devices with distinct routes.

    Args:
        networks: desired configurations, the preferred device first.
        now: current routes in the pod of each of these devices, then of its other devices.
        taken: key -> link of the other routes in the pod, "" without a link.
    """
    owners = {route_key(route): owner for owner, own in enumerate(now) for route in own}
    of_addresses = {
        route_key(route): OF_ADDRESS
        for network in networks
        for address in network.addresses
        for route in connected(address)
    }
    of_others = {key: link or NO_LINK for key, link in taken.items()}
    keys = _UsedKeys(owners, of_addresses | of_others)
    return tuple(
        _with_distinct_routes(network, number, keys) for number, network in enumerate(networks)
    )


def _with_distinct_routes(network: PodNetwork, device: int, keys: _UsedKeys) -> PodNetwork:
    """Return the network with a distinct key for each route; adds them to `keys`."""
    of_addresses = {
        (route_key(route), source)
        for address in network.addresses
        for route in connected(address)
        for source in ("", str(interface_of(address.cidr).ip))
    }
    routes, inherited = [], set(network.inherited)
    backups: list[str] = []
    left_out: list[str] = []
    for route in network.routes:
        key = route_key(route)
        if _is_plain(route) and (key, route.source) in of_addresses:
            continue
        owner = keys.taken.get(key)
        if owner and route in inherited:
            left_out.append(
                f"left out, because {owner} has it: route {route.destination} of the host"
            )
            continue
        free = keys.next_free(key, device)
        keys.assigned.add(free)
        distinct = route if free == key else replace(route, metric=free[3])
        if owner:
            backups.append(_backup_warning(distinct, owner))
        if route in inherited:
            inherited.add(distinct)
        routes.append(distinct)
    return replace(
        network,
        routes=tuple(routes),
        inherited=frozenset(inherited),
        warnings=(*backups, *network.warnings, *left_out),
    )


def _is_plain(route: Route) -> bool:
    """Whether a route has only what a connected route has."""
    return not (route.gateway or route.nexthops or route.mtu or route.metrics or route.encap)


def _backup_warning(route: Route, owner: str) -> str:
    return (
        f"route {route.destination} is a backup with metric {route.metric}, because {owner} has one"
        " of a lower metric: set routes[].metric, or a table of its own and rules, to select the"
        " packets for it"
    )
