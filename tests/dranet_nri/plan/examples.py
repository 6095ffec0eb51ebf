"""Devices and hosts of the planner's tests."""

from dataclasses import replace

from dranet_nri.model import (
    Address,
    InterfaceConfig,
    Link,
    LinkState,
    Neighbour,
    NetworkConfig,
    Observed,
    OffloadSizes,
    Route,
    Rule,
    Sysctl,
)
from dranet_nri.plan.ops import Op
from dranet_nri.plan.planner import AttachTarget
from dranet_nri.plan.pod_network import PodNetwork, pod_network

NIC = Link(
    index=7,
    name="eth1",
    mac="02:00:00:00:00:07",
    mtu=1500,
    min_mtu=68,
    max_mtu=9000,
    up=True,
    altnames=("enp138s0",),
    sizes=OffloadSizes(gso=65536, gro=65536, gso_ipv4=65536, gro_ipv4=65536),
    bus="pci",
    parent="0000:8a:00.0",
)
PLAIN = LinkState(NIC, addresses=(Address("10.1.0.5/24"),))
FULL = LinkState(
    NIC,
    addresses=(Address("10.1.0.5/24"), Address("2001:db8::5/64")),
    routes=(
        Route("10.9.0.0/16", gateway="10.1.0.1"),
        Route("0.0.0.0/0", gateway="10.1.0.1", table=100),
        Route("2001:db8:9::/48", gateway="2001:db8::1", metric=1024),
    ),
    rules=(Rule(4, 1000, source="10.1.0.5/32", table=100), Rule(4, 1001, iif="eth1", table=100)),
    neighbours=(Neighbour("10.1.0.1", "02:00:00:00:00:fe"),),
    sysctls=(Sysctl("ipv4", "rp_filter", "2"),),
)
# Google's shape: a host route to the gateway makes it reachable from a /32.
GKE = LinkState(
    NIC,
    addresses=(Address("10.128.0.9/32"),),
    routes=(
        Route("10.128.0.0/20", gateway="10.128.0.1"),
        Route("10.128.0.1/32", scope=253),
    ),
)
RENAMED = NetworkConfig(InterfaceConfig(name="net1"))


def with_addresses(*cidrs: str) -> NetworkConfig:
    """Return a claim that gives these addresses."""
    return NetworkConfig(InterfaceConfig(addresses=cidrs))


def with_routes(*routes: Route, host: LinkState = PLAIN) -> LinkState:
    """Return a host that has these routes."""
    return replace(host, routes=routes)


def network_of(target: AttachTarget) -> PodNetwork:
    """Return the network that the device has in the pod."""
    assert target.network is not None
    return target.network


def in_pod(config: NetworkConfig, host: LinkState) -> AttachTarget:
    """Return the attach target for a device of that host state."""
    return AttachTarget(pod_network(config, host), host)


def on_host(state: LinkState, *taken: str, in_pod: tuple[str, ...] = ("lo", "eth0")) -> Observed:
    """Return an observation of a device on the host, beside links of the names taken."""
    names = frozenset({"lo", "eth0", *taken})
    rules = tuple(state.rules)
    return Observed(
        host=state, taken_host_names=names, taken_pod_names=frozenset(in_pod), host_rules=rules
    )


HOST_NAMES = frozenset({"lo", "eth0"})


def away(
    state: LinkState, *, on_host: frozenset[str] = HOST_NAMES, in_pod: tuple[str, ...] = ("lo",)
) -> Observed:
    """Return an observation of a device in the pod."""
    return Observed(pod=state, taken_host_names=on_host, taken_pod_names=frozenset(in_pod))


def kinds(ops: tuple[Op, ...]) -> list[type[Op]]:
    """Return the classes of the ops, repeated ones once."""
    return list(dict.fromkeys(type(op) for op in ops))
