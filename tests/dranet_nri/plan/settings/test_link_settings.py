"""Settings of the link in the pod: sysctls, queue length, alternative names, the VRF."""

from dataclasses import replace

import pytest

from dranet_nri.model import (
    Address,
    AddressMode,
    InterfaceConfig,
    Link,
    LinkState,
    NetworkConfig,
    Ns,
    Observed,
    Route,
    RouteConfig,
    Sysctl,
    TcxProgram,
    TcxSide,
    VrfConfig,
)
from dranet_nri.plan.ops import (
    AddAddress,
    AddAltname,
    AddRoute,
    AddRule,
    MoveLink,
    SetMaster,
    SetSysctl,
)
from dranet_nri.plan.planner import AttachTarget, make_plan
from dranet_nri.plan.pod_network import pod_network
from dranet_nri.plan.routes.vrf import AddVrf
from dranet_nri.plan.settings.programs import DisableTcx

NIC = Link(4, "eth1", mtu=1500)
HOST = LinkState(
    NIC,
    addresses=(Address("10.5.0.7/24"), Address("fd00::7/64")),
    routes=(Route("10.9.0.0/16", "10.5.0.1"), Route("fd09::/16", "fd00::1")),
)
BLUE = VrfConfig("blue", 1541)


def interface(**given: object) -> NetworkConfig:
    return NetworkConfig(InterfaceConfig(**given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("config", "sysctl"),
    [
        (interface(disable_ipv6=True), Sysctl("ipv6", "disable_ipv6", "1")),
        (interface(disable_ipv6=False), Sysctl("ipv6", "disable_ipv6", "0")),
        (interface(addr_gen_mode=AddressMode.NONE), Sysctl("ipv6", "addr_gen_mode", "1")),
        (interface(addr_gen_mode=AddressMode.RANDOM), Sysctl("ipv6", "addr_gen_mode", "3")),
        (interface(dad_transmits=0), Sysctl("ipv6", "dad_transmits", "0")),
        (interface(accept_ra=0), Sysctl("ipv6", "accept_ra", "0")),
        (interface(router_solicitations=-1), Sysctl("ipv6", "router_solicitations", "-1")),
        (interface(router_solicitation_delay=3), Sysctl("ipv6", "router_solicitation_delay", "3")),
    ],
    ids=lambda value: str(value.key) if isinstance(value, Sysctl) else "",
)
def test_field_becomes_a_sysctl_of_the_link(config: NetworkConfig, sysctl: Sysctl) -> None:
    assert pod_network(config, HOST).sysctls == (sysctl,)


def test_nothing_of_ipv6_is_inherited_with_disable_ipv6() -> None:
    network = pod_network(interface(disable_ipv6=True), HOST)

    assert [address.cidr for address in network.addresses] == ["10.5.0.7/24"]
    assert [route.destination for route in network.routes] == ["10.9.0.0/16"]


def test_disable_ipv6_sets_nothing_below_the_ipv6_minimum_mtu() -> None:
    assert pod_network(interface(disable_ipv6=True, mtu=1000), HOST).sysctls == ()


PROGRAM = TcxProgram(TcxSide.INGRESS, 7)


@pytest.mark.parametrize(
    ("tcx", "count"), [((PROGRAM,), 1), (None, 1), ((), 0)], ids=["some", "unknown", "none"]
)
@pytest.mark.parametrize("disable", [True, False, None])
def test_tcx_programs_are_detached_before_the_move(
    tcx: tuple[TcxProgram, ...] | None, count: int, *, disable: bool | None
) -> None:
    host = replace(HOST, tcx=tcx)

    plan = make_plan(
        AttachTarget(pod_network(interface(disable_ebpf=disable), host), host), Observed(host=host)
    )
    kinds = [type(op) for op in plan]

    assert kinds.count(DisableTcx) == (count if disable else 0)
    if DisableTcx in kinds:
        assert kinds.index(DisableTcx) < kinds.index(MoveLink)


def test_queue_length_is_set_with_the_move() -> None:
    assert pod_network(interface(tx_queue_len=77), HOST).settings.txqlen == 77


def test_altnames_are_added_once() -> None:
    network = pod_network(interface(altnames=("rail0", "blue0")), HOST)
    there = LinkState(Link(4, "eth1", altnames=("rail0",), mtu=1500))

    ops = make_plan(AttachTarget(network, HOST), Observed(pod=there))

    assert [op.altname for op in ops if isinstance(op, AddAltname)] == ["blue0"]


def test_own_name_of_the_link_is_no_altname() -> None:
    network = pod_network(interface(name="net1", altnames=("net1", "blue0")), HOST)
    there = LinkState(Link(4, "net1", mtu=1500))

    ops = make_plan(AttachTarget(network, HOST), Observed(pod=there))

    assert [op.altname for op in ops if isinstance(op, AddAltname)] == ["blue0"]


def test_link_joins_its_vrf_before_addresses_and_routes() -> None:
    config = NetworkConfig(
        InterfaceConfig(addresses=("10.7.0.7/24",), vrf=BLUE),
        (RouteConfig("10.8.0.0/16", "10.7.0.1", table=9), RouteConfig("10.7.0.0/24", scope=253)),
    )
    network = pod_network(config, HOST)

    ops = make_plan(AttachTarget(network, HOST), Observed(pod=LinkState(NIC)))

    kinds = [type(op) for op in ops]
    assert kinds.index(AddVrf) < kinds.index(SetMaster) < kinds.index(AddAddress)
    assert AddRule not in kinds
    routes = [op.route for op in ops if isinstance(op, AddRoute)]
    assert [(route.destination, route.table) for route in routes] == [("10.8.0.0/16", 1541)]
    assert str(ops[kinds.index(AddVrf)]) == "add VRF blue table 1541 in pod"


def test_link_in_its_vrf_is_not_changed() -> None:
    network = pod_network(interface(vrf=BLUE), HOST)
    there = LinkState(NIC, master_name="blue")

    kinds = {type(op) for op in make_plan(AttachTarget(network, HOST), Observed(pod=there))}

    assert not {AddVrf, SetMaster} & kinds


def test_inherited_routes_in_a_vrf_stay_optional() -> None:
    network = pod_network(interface(vrf=BLUE), HOST)

    assert {route.table for route in network.routes} == {1541}
    assert set(network.routes) <= network.inherited


def test_sysctl_with_the_wanted_value_is_not_set() -> None:
    network = pod_network(interface(dad_transmits=2), HOST)
    there = LinkState(NIC, sysctls=(Sysctl("ipv6", "dad_transmits", "2"),))

    ops = make_plan(AttachTarget(network, HOST), Observed(pod=there))

    assert [op for op in ops if isinstance(op, SetSysctl)] == []
    assert all(op.ns is Ns.POD for op in ops if isinstance(op, AddAddress))
