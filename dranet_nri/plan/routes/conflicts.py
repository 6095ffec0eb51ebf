"""Route conflicts: distinct routes for a pod's devices, beside those that the pod has.

Rules:
1. Several devices of a pod may have the same desired route, such as those of a request with a
   count. Each gets its own metric: the first device is preferred, the others are backups. Existing
   routes keep their metric.
2. A claimed route whose slot a route of the cluster network, or the connected route of an address,
   uses gets the next free metric, with a warning. An inherited one is left out.
3. A route that equals the connected route of the device's own address is left out: the kernel adds
   it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dranet_nri.model import Route
from dranet_nri.plan.pod_network import PodNetwork
from dranet_nri.plan.routes.comparison import Slot, connected, interface_of, slot_of

NO_LINK: Final = "a route of the pod"
AN_ADDRESS: Final = "an address of the pod's NICs"


@dataclass(slots=True)
class _Places:
    """Owners of route slots.

    Attributes:
        owners: slot -> device with a route in it.
        taken: slot -> text of another owner.
        given: slots of placed routes.
    """

    owners: Mapping[Slot, int]
    taken: Mapping[Slot, str]
    given: set[Slot] = field(default_factory=set)

    def next_free(self, slot: Slot, device: int) -> Slot:
        """Return the slot, or the next free one for the device, with a higher metric."""
        while slot in self.given or slot in self.taken or self.owners.get(slot, device) != device:
            slot = (*slot[:3], slot[3] + 1)
        return slot


def separate_routes(
    networks: Sequence[PodNetwork],
    now: Iterable[Iterable[Route]],
    taken: Mapping[Slot, str],
) -> tuple[PodNetwork, ...]:
    """Return the networks of one pod's devices with distinct routes.

    Args:
        networks: desired configurations, the preferred device first.
        now: current routes in the pod of each of these devices, then of its other devices.
        taken: slot -> link of the other routes in the pod, "" without a link.
    """
    owners = {slot_of(route): owner for owner, own in enumerate(now) for route in own}
    of_addresses = {
        slot_of(route): AN_ADDRESS
        for network in networks
        for address in network.addresses
        for route in connected(address)
    }
    of_others = {slot: link or NO_LINK for slot, link in taken.items()}
    places = _Places(owners, of_addresses | of_others)
    return tuple(_placed(network, number, places) for number, network in enumerate(networks))


def _placed(network: PodNetwork, device: int, places: _Places) -> PodNetwork:
    """Return the network with a slot for each route; updates `places`."""
    with_addresses = {
        (slot_of(route), source)
        for address in network.addresses
        for route in connected(address)
        for source in ("", str(interface_of(address.cidr).ip))
    }
    routes, inherited = [], set(network.inherited)
    behind: list[str] = []
    left: list[str] = []
    for route in network.routes:
        slot = slot_of(route)
        if _is_plain(route) and (slot, route.source) in with_addresses:
            continue
        owner = places.taken.get(slot)
        if owner and route in inherited:
            left.append(f"left out, because {owner} has it: route {route.destination} of the host")
            continue
        place = places.next_free(slot, device)
        places.given.add(place)
        placed = route if place == slot else replace(route, metric=place[3])
        if owner:
            behind.append(_backup_warning(placed, owner))
        if route in inherited:
            inherited.add(placed)
        routes.append(placed)
    return replace(
        network,
        routes=tuple(routes),
        inherited=frozenset(inherited),
        warnings=(*behind, *network.warnings, *left),
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
