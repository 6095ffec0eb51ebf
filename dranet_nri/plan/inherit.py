"""Inherited configuration: state of a device's link on the host that its pod gets, best effort.

Rules:
1. Configuration that is not possible in the pod is left out with a warning, and so is what the
   kernel refuses later (plan.optional). The attach continues.
2. Inherited addresses become permanent. So addresses with a managed lifetime are not inherited:
   those of router advertisements (the pod's kernel creates its own), temporary and deprecated ones.
3. A route is inherited only if it fits the pod's addresses: its source is one of them and its
   gateway is on link. A default route of table main is not inherited, because the pod's default
   route is the cluster network's; a claim can have one in `routes`. Routes with a tunnel, over
   other devices or in table local are not inherited: they depend on the host.
4. A rule is inherited with the routes of its table.
5. With dynamic addressing, no address of that family is inherited, and with `SLAAC` no advertised
   route: the pod's kernel creates its own.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.model import (
    FOREVER,
    Address,
    Addressing,
    LinkState,
    Neighbour,
    NetworkConfig,
    Route,
    Rule,
)
from dranet_nri.plan.routes.comparison import (
    IFA_F_NOPREFIXROUTE,
    direct_first,
    is_accepted,
    network_of,
)

MAIN: Final = 254
LOCAL: Final = 255
UNIVERSE: Final = 0
IFA_F_NODAD: Final = 0x02  # linux/if_addr.h
IFA_F_TEMPORARY: Final = 0x01  # the same bit is IFA_F_SECONDARY for IPv4
IFA_F_MANAGETEMPADDR: Final = 0x100
IFAPROT_KERNEL_RA: Final = 2
RTPROT_RA: Final = 9  # linux/rtnetlink.h

Inherited = Address | Route | Rule | Neighbour


@dataclass(frozen=True, slots=True)
class InheritedState:
    """Inherited state, and warnings about the rest."""

    addresses: tuple[Address, ...]
    routes: tuple[Route, ...]
    rules: tuple[Rule, ...]
    neighbours: tuple[Neighbour, ...]
    left_out: tuple[str, ...]

    @property
    def values(self) -> frozenset[Inherited]:
        """Return all inherited values."""
        return frozenset((*self.addresses, *self.routes, *self.rules, *self.neighbours))


def inherited_state(
    config: NetworkConfig, host: LinkState, claimed: tuple[Route, ...], families: Collection[str]
) -> InheritedState:
    """Return the state that the pod inherits.

    Args:
        config: the claim's parameters, which replace inherited values.
        host: state of the device's link on the host.
        claimed: routes of the claim.
        families: address families of the link in the pod.
    """
    left_out: list[str] = []
    claimed_addresses = config.interface.addresses
    if config.interface.disable_ipv6:  # by request of the claim, so without a warning
        v4 = tuple(address for address in host.addresses if not is_v6(address.cidr))
        host = replace(host, addresses=v4)
    found = _addresses(host, families, left_out) if claimed_addresses is None else ()
    routes_of_host = host.routes
    match config.interface.addressing:
        case Addressing.DHCP:
            found = ()
        case Addressing.SLAAC:
            found = [address for address in found if not is_v6(address.cidr)]
            routes_of_host = tuple(route for route in host.routes if route.protocol != RTPROT_RA)
    addresses = tuple(map(_permanent, found))
    own = addresses if claimed_addresses is None else tuple(map(Address, claimed_addresses))
    routes = _routes(routes_of_host, claimed, own, families, left_out)
    configured = {neighbour.destination for neighbour in config.neighbors}
    return InheritedState(
        addresses,
        routes,
        _rules(host, routes, config.interface.name or host.link.name),
        tuple(
            neighbour
            for neighbour in host.neighbours
            if neighbour.destination not in configured
            and _has_family(neighbour.destination, families)
        ),
        tuple(left_out),
    )


def is_v6(text: str) -> bool:
    """Whether an address or prefix is IPv6."""
    return ":" in text


def without_detection(cidr: str) -> int:
    """Return the flags of an address without duplicate address detection, 0 for IPv4.

    The address is usable at once. It is not a duplicate: the host loses it with the move.
    """
    return IFA_F_NODAD if is_v6(cidr) else 0


def _has_family(text: str, families: Collection[str]) -> bool:
    return not is_v6(text) or "ipv6" in families


def _addresses(host: LinkState, families: Collection[str], left_out: list[str]) -> list[Address]:
    found: list[Address] = []
    for address in host.addresses:
        if address.scope != UNIVERSE:
            continue
        why = _why_not_permanent(address)
        if not _has_family(address.cidr, families):
            why = "its MTU is too small for IPv6"
        if why:
            left_out.append(f"left out, because {why}: address {address.cidr} of the host")
        else:
            found.append(address)
    return found


def _why_not_permanent(address: Address) -> str:
    """Return the reason why an address cannot become permanent, "" if it can."""
    if is_v6(address.cidr):
        if address.flags & IFA_F_TEMPORARY:
            return "it is temporary"
        managed = address.flags & IFA_F_MANAGETEMPADDR and address.valid_s != FOREVER
        if address.proto == IFAPROT_KERNEL_RA or managed:
            return "a router advertises it, also to the pod"
    return "it is deprecated" if address.preferred_s == 0 else ""


def _permanent(address: Address) -> Address:
    flags = without_detection(address.cidr) | (address.flags & IFA_F_NOPREFIXROUTE)
    return Address(address.cidr, peer=address.peer, flags=flags, metric=address.metric)


def _routes(
    host: tuple[Route, ...],
    claimed: tuple[Route, ...],
    addresses: tuple[Address, ...],
    families: Collection[str],
    left_out: list[str],
) -> tuple[Route, ...]:
    taken = {(route.destination, route.table) for route in claimed}
    found: list[Route] = []
    for route in direct_first(host):
        if (route.destination, route.table) in taken:
            continue
        is_default = route.table == MAIN and network_of(route.destination).prefixlen == 0
        if is_default or route.table == LOCAL:
            continue
        others = sorted({nexthop.device for nexthop in route.nexthops} - {""})
        if others:
            left_out.append(
                f"left out, because it goes over {', '.join(others)} too: route"
                f" {route.destination} of the host; give each NIC its own in the claim's routes"
            )
        elif route.encap:
            left_out.append(
                f"left out, because it is a tunnel: route {route.destination} of the host"
            )
        elif _has_family(route.destination, families) and is_accepted(
            route, addresses, (*claimed, *found)
        ):
            found.append(replace(route, expires_s=0))
    return tuple(found)


def _rules(host: LinkState, routes: tuple[Route, ...], name: str) -> tuple[Rule, ...]:
    tables = {route.table for route in routes}
    own = host.link.name
    return tuple(
        replace(
            rule,
            iif=name if rule.iif == own else rule.iif,
            oif=name if rule.oif == own else rule.oif,
        )
        for rule in host.rules
        if rule.table in tables and {rule.iif, rule.oif} <= {"", own}
    )
