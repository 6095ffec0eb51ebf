"""Namespaces, links and what operations do to them, for tests.fakes.kernel."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from errno import (
    EEXIST,
    EHOSTUNREACH,
    EINVAL,
    ENETDOWN,
    ENETUNREACH,
    ENODEV,
    ENOENT,
    EOPNOTSUPP,
)
from ipaddress import ip_address, ip_interface
from itertools import chain
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.inventory import HostFacts, NetDevice
from dranet_nri.model import (
    DELETED_WITH_LOWER,
    Address,
    DefaultRoute,
    DriverSetting,
    EthtoolState,
    Link,
    LinkState,
    Neighbour,
    NetnsId,
    NextHop,
    Route,
    RssState,
    Rule,
    SettingGroup,
    Sysctl,
    TcxProgram,
    switches,
)
from dranet_nri.plan.routes.comparison import (
    RouteKey,
    connected,
    lost_routes,
    nexthops_of,
    route_key,
    with_nexthops,
)
from dranet_nri.plan.settings.driver import equal_table
from tests.fakes.routing import is_v6, single, stored

NSFS_DEV: Final = 4
HOST_NETNS: Final = NetnsId("/proc/1/ns/net", NSFS_DEV, 4026531840)
# Values of net/<family>/conf/default in a fresh namespace.
DEFAULTS: Final = {
    ("ipv4", "arp_ignore"): "0",
    ("ipv4", "arp_announce"): "0",
    ("ipv4", "arp_filter"): "0",
    ("ipv4", "rp_filter"): "0",
    ("ipv4", "forwarding"): "0",
    ("ipv4", "accept_local"): "0",
    ("ipv4", "proxy_arp"): "0",
    ("ipv4", "send_redirects"): "1",
    ("ipv4", "accept_redirects"): "1",
    ("ipv4", "src_valid_mark"): "0",
    ("ipv4", "log_martians"): "0",
    ("ipv6", "disable_ipv6"): "0",
    ("ipv6", "accept_ra"): "1",
    ("ipv6", "autoconf"): "1",
    ("ipv6", "forwarding"): "0",
    ("ipv6", "addr_gen_mode"): "0",
    ("ipv6", "use_tempaddr"): "0",
    ("ipv6", "accept_dad"): "1",
    ("ipv6", "dad_transmits"): "1",
    ("ipv6", "router_solicitations"): "-1",
    ("ipv6", "router_solicitation_delay"): "1",
    ("ipv6", "router_solicitation_interval"): "4",
    ("ipv6", "router_solicitation_max_interval"): "3600",
    ("ipv6", "accept_ra_pinfo"): "1",
    ("ipv6", "ra_defrtr_metric"): "1024",
}
ADDR_GEN_MODE: Final = ("ipv6", "addr_gen_mode")
STABLE_SECRET: Final = ("ipv6", "stable_secret")  # told where addresses are made of it
# What a claim can set, and all that is told of a pod.
SET_BY_CLAIMS: Final = frozenset(
    {
        ("ipv4", "arp_ignore"),
        ("ipv4", "arp_announce"),
        ("ipv4", "forwarding"),
        ("ipv6", "disable_ipv6"),
        ("ipv6", "forwarding"),
        ("ipv6", "addr_gen_mode"),
        ("ipv6", "accept_ra"),
        ("ipv6", "dad_transmits"),
        ("ipv6", "router_solicitations"),
        ("ipv6", "router_solicitation_delay"),
        ("ipv6", "router_solicitation_interval"),
        ("ipv6", "router_solicitation_max_interval"),
        ("ipv6", "autoconf"),
        ("ipv6", "accept_ra_pinfo"),
        ("ipv6", "ra_defrtr_metric"),
    }
)
# Features that a new link can change, and whether they are asked for; what each needs beside it.
FEATURES: Final = {
    "rx-gro": False,
    "tx-checksum-ip-generic": True,
    "tx-scatter-gather": True,
    "tx-tcp-segmentation": True,
    "tx-tcp6-segmentation": True,
}
NEEDS: Final = {
    "tx-tcp-segmentation": "tx-scatter-gather",
    "tx-tcp6-segmentation": "tx-scatter-gather",
}
RSS_ENTRIES: Final = 8
MAIN: Final = 254
MAIN_TABLES: Final = frozenset({0, 253, 254, 255})


@dataclass(slots=True, eq=False)
class FakeLink:
    """A link and what hangs on it."""

    link: Link
    addresses: list[Address] = field(default_factory=list)
    neighbours: list[Neighbour] = field(default_factory=list)
    sysctls: dict[tuple[str, str], str] = field(default_factory=dict)
    features: dict[str, bool] = field(default_factory=lambda: dict(FEATURES))
    private_flags: dict[str, bool] = field(default_factory=dict)
    driver: dict[str, DriverSetting] = field(default_factory=dict)
    rss: RssState | None = None
    rss_set: bool = False  # IFF_RXFH_CONFIGURED
    unrestorable: tuple[str, ...] = ()
    tcx: list[TcxProgram] = field(default_factory=list)
    rate: int = 0

    def ethtool(self, groups: Collection[str] = ()) -> EthtoolState:
        """Return features, private flags and driver settings."""
        on = {name for name, requested in self.features.items() if requested}
        active = tuple(sorted(name for name in on if NEEDS.get(name, name) in on))
        return EthtoolState(
            switches(self.features),
            active,
            switches(self.private_flags),
            tuple(setting for setting in self.driver.values() if setting.group in groups),
            self.rss if SettingGroup.RSS in groups else None,
        )

    def set_driver(self, what: str, target: tuple[DriverSetting, ...]) -> None:
        """Set driver settings; the table of RSS follows the queues if it is the default."""
        for setting in target:
            found = self.driver.get(setting.name)
            if found is None:
                raise KernelError(what, EOPNOTSUPP, "the driver has no such setting")
            if found.maximum and setting.value > found.maximum:
                raise KernelError(what, EINVAL, "requested value exceeds maximum")
            if setting.name == "channels.combined" and self.rss is not None:
                if max(self.rss.table) >= setting.value and self.rss_set:
                    raise KernelError(what, EINVAL, "too low for the indirection table")
                remaining = (
                    self.rss.table if self.rss_set else equal_table(setting.value, RSS_ENTRIES)
                )
                self.rss = RssState(remaining, setting.value)
            self.driver[setting.name] = replace(found, value=setting.value)

    def set_rss(self, what: str, table: tuple[int, ...]) -> None:
        """Set the table, () for the default."""
        if self.rss is None:
            raise KernelError(what, EOPNOTSUPP, "the driver has no table")
        if table and max(table) >= self.rss.queues:
            raise KernelError(what, EINVAL, "there is no such queue")
        self.rss_set = bool(table)
        self.rss = replace(self.rss, table=table or equal_table(self.rss.queues, RSS_ENTRIES))

    def names(self) -> frozenset[str]:
        """Return the name and the alternative ones."""
        return frozenset((self.link.name, *self.link.altnames))

    def seen_sysctls(self, only: Collection[tuple[str, str]]) -> tuple[Sysctl, ...]:
        """Return those asked for."""
        values = {**DEFAULTS, **self.sysctls}
        visible = tuple(Sysctl(*slot, values[slot]) for slot in DEFAULTS if slot in only)
        if Sysctl(*ADDR_GEN_MODE, "2") in visible:
            return Sysctl(*STABLE_SECRET, values[STABLE_SECRET]), *visible
        return visible

    def set_sysctl(self, what: str, target: Sysctl) -> None:
        """Set one, as far as the kernel takes it."""
        slot = target.family, target.key
        if slot not in DEFAULTS and slot != STABLE_SECRET:
            raise KernelError(what, ENOENT, "no such sysctl")
        if slot == STABLE_SECRET:
            self.sysctls[ADDR_GEN_MODE] = "2"
        if slot == ADDR_GEN_MODE and target.value == "2" and STABLE_SECRET not in self.sysctls:
            raise KernelError(what, EINVAL, "there is no stable secret")
        self.sysctls[slot] = target.value

    def reaches(self, gateway: str) -> bool:
        """Whether the gateway is in the network of one of the addresses."""
        if ip_address(gateway).is_link_local:
            return True
        return any(ip_address(gateway) in ip_interface(a.cidr).network for a in self.addresses)


@dataclass(slots=True)
class Namespace:
    """A network namespace.

    Attributes:
        told: the sysctls that are told.
        routes: each with the link it was added through.
    """

    links: list[FakeLink]
    reported: Collection[tuple[str, str]] = tuple(DEFAULTS)
    routes: list[tuple[FakeLink, Route]] = field(default_factory=list)
    rules: list[Rule] = field(default_factory=list)

    def find(self, name: str) -> FakeLink | None:
        """Return the link of that name, if any; altnames don't count."""
        return next((entry for entry in self.links if entry.link.name == name), None)

    def named(self, what: str, name: str) -> FakeLink:
        """Return the link of that name."""
        entry = self.find(name)
        if entry is None:
            raise KernelError(what, ENODEV, f"no link {name}")
        return entry

    def at(self, what: str, index: int) -> FakeLink:
        """Return the link of that index."""
        entry = next((entry for entry in self.links if entry.link.index == index), None)
        if entry is None:
            raise KernelError(what, ENODEV, f"no link {index}")
        return entry

    def plain(self) -> tuple[Link, ...]:
        """Return every link."""
        return tuple(entry.link for entry in self.links)

    def taken(self, own: Link | None) -> frozenset[str]:
        """Return the names of all links but own."""
        others = (e.names() for e in self.links if own is None or e.link.index != own.index)
        return frozenset().union(*others)

    def require_free(self, what: str, name: str, own: FakeLink | None = None) -> None:
        """Fail if another link uses the name."""
        for entry in self.links:
            if name in entry.names() and (entry is not own or name != entry.link.name):
                raise KernelError(what, EEXIST, f"the name {name} is in use")

    def state(self, entry: FakeLink) -> LinkState:
        """Return everything of one link."""
        routes = tuple(visible for held in self.routes if (visible := _seen_from(entry, *held)))
        name, tables = entry.link.name, {route.table for route in routes} - MAIN_TABLES
        masters = [e.link.name for e in self.links if e.link.index == entry.link.master]
        return LinkState(
            link=entry.link,
            master_name=masters[0] if masters else "",
            addresses=tuple(entry.addresses),
            routes=routes,
            rules=tuple(r for r in self.rules if name in {r.iif, r.oif} or r.table in tables),
            neighbours=tuple(entry.neighbours),
            sysctls=entry.seen_sysctls(self.reported),
            unrestorable=entry.unrestorable,
        )

    def default_routes(self) -> tuple[DefaultRoute, ...]:
        """Return those of table main."""
        return tuple(
            DefaultRoute(6 if is_v6(route.destination) else 4, route.metric, (entry.link.index,))
            for entry, route in self.routes
            if route.destination in {"0.0.0.0/0", "::/0"} and route.table == MAIN
        )

    def facts(self) -> HostFacts:
        """Return what links are judged by."""
        netdevs = tuple(NetDevice(link.link, tuple(link.addresses)) for link in self.links)
        by_daemon = [(one.link.index, "bird") for one, route in self.routes if route.protocol == 12]
        return HostFacts(
            netdevs=netdevs,
            default_routes=self.default_routes(),
            daemon_routes=tuple(by_daemon),
        )

    def slots(self, except_links: Collection[int]) -> dict[RouteKey, str]:
        """Return the places that routes have, but for those of these links; connected ones too."""
        routes = [
            *self.routes,
            *(
                (entry, address)
                for entry in self.links
                if entry.link.up
                for address in _of_addresses(entry)
            ),
        ]
        return {
            route_key(route): entry.link.name
            for entry, route in reversed(routes)
            if entry.link.index not in except_links
        }

    def drop(self, entry: FakeLink) -> None:
        """Take a link out, its routes and tunnels on it; links it was the master of become free."""
        self.drop_routes(entry, leaving=True)
        entry.unrestorable = ()
        self.links.remove(entry)
        for other in [link for link in self.links if link.link.lower == entry.link.index]:
            if other.link.kind in DELETED_WITH_LOWER:
                self.drop(other)
        for other in self.links:
            if other.link.master == entry.link.index:
                other.link = replace(other.link, master=0)

    def drop_routes(self, entry: FakeLink, *, leaving: bool) -> None:
        """Do what the kernel does to routes when a link goes down or leaves.

        Next hops over other links that are up keep a route whose link is only down. When the link
        leaves, an IPv6 route loses the next hop, an IPv4 route is deleted as a whole.
        """
        remaining: list[tuple[FakeLink, Route]] = []
        for owner, route in self.routes:
            visible = _seen_from(entry, owner, route)
            nexthops = [hop for hop in visible.nexthops if hop.device] if visible else []
            alive = any(self.named("flush", hop.device).link.up for hop in nexthops)
            if visible is None or (alive and not leaving):
                remaining.append((owner, route))
            elif nexthops and is_v6(route.destination):
                survivor = self.named("flush", nexthops[0].device)
                own = [replace(h, device="") for h in nexthops if h.device == nexthops[0].device]
                rest = [h for h in nexthops if h.device != nexthops[0].device]
                remaining.append((survivor, single(replace(route, nexthops=(*own, *rest)))))
        self.routes = remaining

    def add_route(self, what: str, name: str, route: Route, *, append: bool = True) -> None:
        """Add a route unless an equal one exists; `append` allows others with its key."""
        entry = self.named(what, name)
        target = stored(route)
        for hop in nexthops_of(target):
            _require_usable(what, self.named(what, hop.device or name), target, hop, far=append)
        owned = {ip_interface(a.cidr).ip for e in self.links for a in e.addresses}
        if target.source and ip_address(target.source) not in owned:
            raise KernelError(what, EINVAL, "Invalid prefsrc address")
        others = [held for held in self.routes if route_key(held[1]) == route_key(target)]
        visible = (_seen_from(entry, owner, present) for owner, present in others)
        devices = {link.link.name for link in self.links}
        if not lost_routes((target,), filter(None, visible), devices):
            return
        if others and not append:
            raise KernelError(what, EEXIST, "another route is there")
        nexthops = _named_nexthops(entry, target)
        for owner, present in others:
            have = _named_nexthops(owner, present)
            joined = is_v6(target.destination) and _has_gateway(target) and _has_gateway(present)
            if joined:
                missing = [
                    nexthop for nexthop in nexthops_of(target) if _named(entry, nexthop) not in have
                ]
                own = nexthops_of(_as_seen_from(entry, owner, present))
                target = with_nexthops(target, (*own, *missing))
            if joined or have < nexthops:
                self.routes.remove((owner, present))
        self.routes.append((entry, target))

    def add_rule(self, what: str, rule: Rule) -> None:
        """Add a rule unless it is there."""
        if rule not in self.rules:
            self.rules.append(rule)
            self.rules.sort(key=lambda r: r.priority)


def _of_addresses(entry: FakeLink) -> Iterator[Route]:
    return chain.from_iterable(map(connected, entry.addresses))


def _seen_from(entry: FakeLink, owner: FakeLink, route: Route) -> Route | None:
    """Return the route with next hops named relative to entry, None if it doesn't use entry."""
    if owner is entry:
        return route
    if all(hop.device != entry.link.name for hop in route.nexthops):
        return None
    swap = {"": owner.link.name, entry.link.name: ""}
    hops = (replace(h, device=swap.get(h.device, h.device)) for h in route.nexthops)
    return replace(route, nexthops=tuple(hops))


def _as_seen_from(entry: FakeLink, owner: FakeLink, route: Route) -> Route:
    """Return the route with next hops named relative to entry, which it need not use."""
    names = {"": owner.link.name, entry.link.name: ""}
    nexthops = (
        replace(nexthop, device=names.get(nexthop.device, nexthop.device))
        for nexthop in nexthops_of(route)
    )
    return with_nexthops(route, tuple(nexthops))


def _named(entry: FakeLink, nexthop: NextHop) -> tuple[str, str]:
    return nexthop.gateway, nexthop.device or entry.link.name


def _named_nexthops(entry: FakeLink, route: Route) -> set[tuple[str, str]]:
    return {_named(entry, nexthop) for nexthop in nexthops_of(route)}


def _has_gateway(route: Route) -> bool:
    """Whether IPv6 makes it one with others that have a gateway (rt6_qualify_for_ecmp)."""
    return bool(nexthops_of(route)[0].gateway)


def _require_usable(what: str, entry: FakeLink, route: Route, hop: NextHop, *, far: bool) -> None:
    """Fail as the kernel does for a hop that is down or, unless it may be, out of reach."""
    if not entry.link.up:
        raise KernelError(what, ENETDOWN, "Device for nexthop is not up")
    if hop.gateway and not hop.onlink and not far and not entry.reaches(hop.gateway):
        v6 = is_v6(route.destination)
        raise KernelError(what, EHOSTUNREACH if v6 else ENETUNREACH, "Nexthop has invalid gateway")
