"""Plans for one device into the pod, from literals."""

from dataclasses import replace

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    Address,
    InterfaceConfig,
    LinkState,
    Neighbour,
    NetworkConfig,
    Ns,
    Observed,
    OffloadSizes,
    Route,
    RouteConfig,
    Sysctl,
)
from dranet_nri.plan.lease_ops import DropAddress
from dranet_nri.plan.ops import (
    AddAddress,
    AddNeighbour,
    AddRoute,
    AddRule,
    DelAltname,
    LinkSettings,
    MoveLink,
    RenameLink,
    SetDown,
    SetLink,
    SetMaster,
    SetSysctl,
    SetUp,
)
from dranet_nri.plan.planner import make_plan
from tests.dranet_nri.plan.examples import (
    FULL,
    NIC,
    PLAIN,
    RENAMED,
    away,
    in_pod,
    kinds,
    network_of,
    on_host,
)
from tests.dranet_nri.plan.shapes import EVERYTHING

NODAD = 0x02  # IFA_F_NODAD, linux/if_addr.h
KERNEL_LL = 3  # IFAPROT_KERNEL_LL
# --------------------------------------------------------------------------- into the pod


def test_attach_operations_have_a_fixed_order() -> None:
    host = replace(FULL, master_name="br0")

    ops = make_plan(in_pod(EVERYTHING, host), on_host(host, "br0"))

    assert kinds(ops) == [
        SetMaster,
        SetDown,
        MoveLink,
        SetSysctl,
        AddAddress,
        SetUp,
        AddRoute,
        AddRule,
        AddNeighbour,
    ]
    assert [op for op in ops if isinstance(op, MoveLink)] == [
        MoveLink(
            Ns.HOST,
            7,
            Ns.POD,
            "net1",
            LinkSettings(
                mtu=8896,
                mac="02:00:5e:10:00:01",
                sizes=OffloadSizes(gso=65536, gro=65537, gso_ipv4=65538, gro_ipv4=65539),
            ),
        )
    ]


def test_plain_device_is_moved_with_its_configuration() -> None:
    assert make_plan(in_pod(NetworkConfig(), PLAIN), on_host(PLAIN)) == (
        SetDown(Ns.HOST, 7),
        MoveLink(Ns.HOST, 7, Ns.POD, "eth1"),
        AddAddress(Ns.POD, "eth1", Address("10.1.0.5/24")),
        SetUp(Ns.POD, "eth1"),
    )


def test_address_with_a_joined_group_is_deleted_before_the_move() -> None:
    joined = Address("224.0.5.5/32", flags=0x400)  # IFA_F_MCAUTOJOIN
    host = replace(PLAIN, addresses=(*PLAIN.addresses, joined))

    ops = make_plan(in_pod(NetworkConfig(), host), on_host(host))

    assert ops[:2] == (DropAddress(Ns.HOST, "eth1", "224.0.5.5/32"), SetDown(Ns.HOST, 7))


def test_device_that_is_down_is_not_set_down() -> None:
    host = replace(PLAIN, link=replace(NIC, up=False))

    ops = make_plan(in_pod(RENAMED, host), on_host(host))

    assert ops[0] == MoveLink(Ns.HOST, 7, Ns.POD, "net1")


@pytest.mark.parametrize(
    ("altnames", "pod_names", "dropped"),
    [
        pytest.param(("enp138s0",), ("lo", "enp138s0"), ["enp138s0"], id="taken in the pod"),
        pytest.param(("net1", "enp138s0"), ("lo",), ["net1"], id="the name it shall have"),
        pytest.param(("enp138s0",), ("lo",), [], id="free"),
    ],
)
def test_altnames_that_prevent_the_move_are_removed_before(
    altnames: tuple[str, ...], pod_names: tuple[str, ...], dropped: list[str]
) -> None:
    host = replace(PLAIN, link=replace(NIC, altnames=altnames))

    ops = make_plan(in_pod(RENAMED, host), on_host(host, in_pod=pod_names))

    move = kinds(ops).index(MoveLink)
    assert [op.altname for op in ops if isinstance(op, DelAltname)] == dropped
    assert DelAltname not in kinds(ops)[move:]


@pytest.mark.parametrize(
    ("mtu", "low", "high", "message_parts"),
    [
        pytest.param(9001, 68, 9000, ("interface.mtu 9001", "eth1", "maximum is 9000"), id="above"),
        pytest.param(67, 68, 9000, ("interface.mtu 67", "eth1", "minimum is 68"), id="below"),
        pytest.param(9000, 68, 9000, None, id="the maximum"),
        pytest.param(68, 68, 9000, None, id="the minimum"),
        pytest.param(65535, 0, 0, None, id="no limits"),
    ],
)
def test_mtu_outside_the_limits_of_the_device_is_refused(
    mtu: int, low: int, high: int, message_parts: tuple[str, ...] | None
) -> None:
    host = replace(PLAIN, link=replace(NIC, min_mtu=low, max_mtu=high))
    desired = in_pod(NetworkConfig(InterfaceConfig(mtu=mtu)), host)

    if message_parts is None:
        assert make_plan(desired, on_host(host))[1] == MoveLink(
            Ns.HOST, 7, Ns.POD, "eth1", LinkSettings(mtu=mtu)
        )
        return
    with pytest.raises(RefusedError) as caught:
        make_plan(desired, on_host(host))
    assert all(word in str(caught.value) for word in message_parts)


@pytest.mark.parametrize(
    "observed",
    [
        pytest.param(on_host(PLAIN, in_pod=("lo", "net1")), id="from the host"),
        pytest.param(away(PLAIN, in_pod=("lo", "net1")), id="in the pod under another name"),
    ],
)
def test_name_taken_in_the_pod_is_refused(observed: Observed) -> None:
    with pytest.raises(RefusedError, match=r"interface.name 'net1'.*taken in the pod.*set"):
        make_plan(in_pod(RENAMED, PLAIN), observed)


def test_missing_device_is_refused() -> None:
    with pytest.raises(RefusedError, match="eth1 is neither on the host nor in the pod"):
        make_plan(in_pod(RENAMED, PLAIN), Observed())


def test_partly_configured_device_in_the_pod_gets_the_missing_parts() -> None:
    desired = in_pod(EVERYTHING, FULL)
    has = LinkState(
        replace(NIC, index=9, name="net1", mtu=1500, mac="02:00:5e:10:00:01", up=False),
        addresses=(Address("192.168.1.5/24"), Address("10.99.0.1/24")),
        neighbours=(Neighbour("192.168.1.1", "02:00:5e:10:00:02"),),
        sysctls=(Sysctl("ipv4", "arp_ignore", "1"), Sysctl("ipv4", "forwarding", "0")),
    )

    ops = make_plan(desired, replace(away(has), pod_rules=network_of(desired).rules))

    assert ops == (
        SetLink(
            Ns.POD,
            "net1",
            LinkSettings(sizes=OffloadSizes(gro=65537, gso_ipv4=65538, gro_ipv4=65539)),
        ),
        SetLink(Ns.POD, "net1", LinkSettings(mtu=8896)),
        SetSysctl(Ns.POD, "net1", Sysctl("ipv6", "disable_ipv6", "0")),
        SetSysctl(Ns.POD, "net1", Sysctl("ipv4", "arp_announce", "2")),
        SetSysctl(Ns.POD, "net1", Sysctl("ipv4", "forwarding", "1")),
        SetSysctl(Ns.POD, "net1", Sysctl("ipv6", "forwarding", "1")),
        AddAddress(Ns.POD, "net1", Address("2001:db8:1::5/64", flags=NODAD)),
        SetUp(Ns.POD, "net1"),
        *(AddRoute(Ns.POD, "net1", route) for route in network_of(desired).routes),
        AddNeighbour(Ns.POD, "net1", Neighbour("10.1.0.1", "02:00:00:00:00:fe")),
    )


def test_configured_device_in_the_pod_needs_no_operation() -> None:
    desired = in_pod(NetworkConfig(), FULL)

    ops = make_plan(desired, replace(away(FULL), pod_rules=FULL.rules))

    assert ops == ()


@pytest.mark.parametrize("metric", [0, 1024])
def test_ipv6_route_without_a_metric_equals_the_one_of_metric_1024(metric: int) -> None:
    config = NetworkConfig(routes=(RouteConfig("2001:db8:9::/48", gateway="fe80::1"),))
    route = Route("2001:db8:9::/48", gateway="fe80::1", metric=metric)
    now = replace(PLAIN, routes=(route,), sysctls=(Sysctl("ipv6", "disable_ipv6", "0"),))

    ops = make_plan(in_pod(config, PLAIN), away(now))

    assert ops == ()


def test_rename_in_the_pod_restores_the_configuration_lost_by_set_down() -> None:
    config = replace(RENAMED, routes=(RouteConfig("10.9.0.0/16", gateway="10.1.0.1"),))
    desired = in_pod(config, FULL)
    link = replace(NIC, altnames=("net1",))
    now = replace(FULL, link=link, routes=network_of(desired).routes)

    ops = make_plan(desired, replace(away(now), pod_rules=network_of(desired).rules))

    assert ops == (
        DelAltname(Ns.POD, 7, "net1"),
        SetDown(Ns.POD, 7),
        RenameLink(Ns.POD, 7, "net1"),
        AddAddress(Ns.POD, "net1", Address("2001:db8::5/64", flags=NODAD)),
        SetUp(Ns.POD, "net1"),
        *(AddRoute(Ns.POD, "net1", route) for route in network_of(desired).routes),
        AddNeighbour(Ns.POD, "net1", FULL.neighbours[0]),
    )


def test_other_link_with_the_wanted_name_is_not_the_virtual_device() -> None:
    virtual = LinkState(replace(NIC, bus="", parent=""))
    other = LinkState(replace(NIC, bus="", parent="", index=2, name="net1", altnames=("lan",)))

    with pytest.raises(RefusedError, match="'net1' for device eth1 is taken in the pod"):
        make_plan(in_pod(RENAMED, virtual), Observed(host=virtual, pod=other))


def test_virtual_device_in_the_pod_is_configured_beside_a_host_link_of_its_name() -> None:
    virtual = LinkState(replace(NIC, bus="", parent=""))
    inside = LinkState(replace(virtual.link, index=9, name="net1"))
    other = LinkState(replace(virtual.link, index=12))
    desired = in_pod(RENAMED, virtual)

    assert make_plan(desired, Observed(host=other, pod=inside)) == make_plan(
        desired, Observed(pod=inside)
    )
