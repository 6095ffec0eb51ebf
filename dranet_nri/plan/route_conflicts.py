"""Route conflicts among the devices of a pod, and with the routes that the pod already has.

Rules:
1. Several devices of a pod may have the same desired route, as the parameters of a request with a
   count do. In a pod each gets a metric of its own: the first device is preferred, the others are
   backups. Routes that are in the pod already keep their metric.
2. A claimed route whose metric is used by a route of the cluster network, or by the connected
   route of an address, gets the next free one, with a warning. An inherited one is left out.
3. A route that equals the connected route of the device's own address comes with the address.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dranet_nri.model import Route
from dranet_nri.plan.pod_network import PodNetwork
from dranet_nri.plan.routes import Slot, connected, interface_of, slot_of

NO_LINK: Final = "a route of the pod"
AN_ADDRESS: Final = "an address of the pod's NICs"


@dataclass(slots=True)
class _Places:
    """Owners of route slots.

    Attributes:
        owners: the device whose route is in a slot now.
        taken: other owners of a route in a slot, in words.
        given: the slots of routes that were placed.
    """

    owners: Mapping[Slot, int]
    taken: Mapping[Slot, str]
    given: set[Slot] = field(default_factory=set)

    def next_free(self, slot: Slot, device: int) -> Slot:
        """Return the slot, or that of the next metric that the device can have."""
        while slot in self.given or slot in self.taken or self.owners.get(slot, device) != device:
            slot = (*slot[:3], slot[3] + 1)
        return slot


def separate_routes(
    networks: Sequence[PodNetwork],
    now: Iterable[Iterable[Route]],
    taken: Mapping[Slot, str],
) -> tuple[PodNetwork, ...]:
    """Return the networks of one pod's devices with routes that can stand beside each other.

    Args:
        networks: what the devices shall have, the preferred one first.
        now: the routes that each of these devices has in the pod, then those of its other ones.
        taken: the link of the other routes in the pod, by slot; "" if there is none.
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
    """Return the network with the place of each route; places are given on the way."""
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
        holder = places.taken.get(slot)
        if holder and route in inherited:
            left.append(f"left out, for {holder} has it: route {route.destination} of the host")
            continue
        place = places.next_free(slot, device)
        places.given.add(place)
        placed = route if place == slot else replace(route, metric=place[3])
        if holder:
            behind.append(_told(placed, holder))
        if route in inherited:
            inherited.add(placed)
        routes.append(placed)
    return replace(
        network,
        routes=tuple(routes),
        inherited=frozenset(inherited),
        told=(*behind, *network.told, *left),
    )


def _is_plain(route: Route) -> bool:
    """Whether a route has nothing that the connected route of an address lacks."""
    return not (route.gateway or route.nexthops or route.mtu or route.metrics or route.encap)


def _told(route: Route, holder: str) -> str:
    return (
        f"route {route.destination} stands by with metric {route.metric}, for {holder} has one of a"
        " lower metric: set routes[].metric, or a table of its own and rules, to say which packets"
        " take it"
    )
