"""Restore plans: restored, outdated and unchanged configuration; from literals."""

from dataclasses import replace

import pytest

from dranet_nri.model import (
    FOREVER,
    Address,
    IpoibState,
    Link,
    LinkState,
    Neighbour,
    Ns,
    Observed,
    Route,
    Rule,
    Sysctl,
)
from dranet_nri.plan.ops import (
    AddAddress,
    AddRoute,
    LinkSettings,
    MoveLink,
    SetLink,
    SetMaster,
)
from dranet_nri.plan.planner import is_restored, is_usable, make_plan
from dranet_nri.plan.restore import RestoreTarget
from tests.dranet_nri.plan.examples import FULL, HOST_NAMES, NIC, PLAIN, on_host

TEMPORARY, NODAD = 0x01, 0x02  # IFA_F_*, linux/if_addr.h
KERNEL_LL = 3  # IFAPROT_KERNEL_LL


@pytest.mark.parametrize(
    ("master", "names", "restored"),
    [
        pytest.param("", ("br0",), True, id="free meanwhile"),
        pytest.param("br1", ("br0", "br1"), True, id="another master"),
        pytest.param("br0", ("br0",), False, id="in it"),
        pytest.param("", (), False, id="gone: the device is restored without it"),
    ],
)
def test_master_is_restored_if_it_exists(
    master: str, names: tuple[str, ...], *, restored: bool
) -> None:
    now = replace(PLAIN, master_name=master)

    ops = make_plan(RestoreTarget(replace(PLAIN, master_name="br0")), on_host(now, *names))

    assert ops == ((SetMaster(Ns.HOST, "eth1", "br0"),) if restored else ())


@pytest.mark.parametrize(
    ("before", "elapsed_s", "after"),
    [
        pytest.param(
            Address("10.1.0.5/24"), 10**6, Address("10.1.0.5/24"), id="permanent stays permanent"
        ),
        pytest.param(
            Address("10.1.0.5/24", valid_s=100, preferred_s=50),
            30,
            Address("10.1.0.5/24", valid_s=70, preferred_s=20),
            id="the rest of a lifetime",
        ),
        pytest.param(
            Address("10.1.0.5/24", valid_s=100, preferred_s=50),
            60,
            Address("10.1.0.5/24", valid_s=40, preferred_s=0),
            id="deprecated meanwhile",
        ),
        pytest.param(
            Address("10.1.0.5/24", valid_s=FOREVER, preferred_s=50),
            60,
            Address("10.1.0.5/24", valid_s=FOREVER, preferred_s=0),
            id="permanent, deprecated meanwhile",
        ),
        pytest.param(Address("10.1.0.5/24", valid_s=100), 100, None, id="expired"),
        pytest.param(
            Address("fe80::7/64", scope=253, proto=KERNEL_LL), 0, None, id="the kernel's link-local"
        ),
        pytest.param(
            Address("2001:db8::7/64", valid_s=100, flags=TEMPORARY), 0, None, id="temporary"
        ),
        pytest.param(
            Address("fe80::7/64", scope=253),
            0,
            Address("fe80::7/64", scope=253),
            id="an administrator's link-local",
        ),
    ],
)
def test_addresses_are_restored_with_their_remaining_lifetime(
    before: Address, elapsed_s: int, after: Address | None
) -> None:
    snapshot = replace(PLAIN, addresses=(before,))

    ops = make_plan(RestoreTarget(snapshot, elapsed_s), on_host(replace(PLAIN, addresses=())))

    assert ops == ((AddAddress(Ns.HOST, "eth1", after),) if after else ())


@pytest.mark.parametrize(
    ("expires_s", "after"),
    [
        pytest.param(0, 0, id="permanent"),
        pytest.param(100, 40, id="the rest"),
        pytest.param(60, None, id="expired"),
    ],
)
def test_routes_are_restored_with_their_remaining_lifetime(
    expires_s: int, after: int | None
) -> None:
    route = Route("2001:db8:9::/48", gateway="fe80::1", expires_s=expires_s, protocol=9)

    ops = make_plan(RestoreTarget(replace(PLAIN, routes=(route,)), 60), on_host(PLAIN))

    desired = replace(route, expires_s=after or 0)
    assert ops == (() if after is None else (AddRoute(Ns.HOST, "eth1", desired),))


def test_routes_are_restored_in_a_valid_order() -> None:
    via = Route("10.9.0.0/16", gateway="172.16.0.1")
    direct = Route("172.16.0.1/32", scope=253)

    ops = make_plan(RestoreTarget(replace(PLAIN, routes=(via, direct))), on_host(PLAIN))

    assert ops == (AddRoute(Ns.HOST, "eth1", direct), AddRoute(Ns.HOST, "eth1", via))


def test_configuration_added_by_others_is_never_deleted() -> None:
    now = replace(
        FULL,
        link=replace(NIC, altnames=("enp138s0", "new")),
        master_name="br9",
        addresses=(*FULL.addresses, Address("10.77.0.1/24")),
        routes=(*FULL.routes, Route("10.78.0.0/16", scope=253)),
        rules=(*FULL.rules, Rule(4, 5, table=7)),
        neighbours=(*FULL.neighbours, Neighbour("10.1.0.77", "02:00:00:00:00:0b")),
        sysctls=(*FULL.sysctls, Sysctl("ipv4", "arp_filter", "1")),
    )

    assert make_plan(RestoreTarget(FULL), on_host(now, "br9")) == ()


def test_missing_device_gives_an_empty_plan_and_is_not_restored() -> None:
    desired = RestoreTarget(PLAIN)

    assert make_plan(desired, Observed(taken_host_names=HOST_NAMES)) == ()
    assert not is_restored(desired, Observed(taken_host_names=HOST_NAMES))


@pytest.mark.parametrize("state", [PLAIN, FULL], ids=["plain", "full"])
def test_unchanged_device_on_the_host_needs_no_operation(state: LinkState) -> None:
    assert make_plan(RestoreTarget(state), on_host(state)) == ()
    assert is_restored(RestoreTarget(state), on_host(state))


def test_device_without_a_link_layer_address_gets_none() -> None:
    tunnel = LinkState(Link(4, "tun0", mac="", up=False))
    now = LinkState(Link(4, "tun0", mac="02:00:00:00:00:01", up=False))

    assert make_plan(RestoreTarget(tunnel), on_host(now)) == ()


@pytest.mark.parametrize(
    ("now", "usable"),
    [
        pytest.param(PLAIN, True, id="as-it-was"),
        pytest.param(replace(PLAIN, routes=(Route("10.6.0.0/16", scope=253),)), True, id="more"),
        pytest.param(replace(PLAIN, addresses=()), False, id="no-address"),
        pytest.param(replace(PLAIN, link=replace(NIC, name="dra7")), False, id="another-name"),
        pytest.param(replace(PLAIN, link=replace(NIC, mac="02:00:00:00:00:09")), False, id="mac"),
        pytest.param(replace(PLAIN, link=replace(NIC, mtu=1400)), True, id="another-mtu"),
    ],
)
def test_device_is_usable_without_routes_or_mtu_but_not_without_name_and_addresses(
    now: LinkState,
    usable: bool,  # noqa: FBT001 - a case's outcome
) -> None:
    desired = RestoreTarget(replace(PLAIN, routes=(Route("10.9.0.0/16", gateway="10.1.0.1"),)))

    assert is_usable(desired, on_host(now)) is usable
    assert not is_usable(desired, Observed(pod=now))


CONNECTED, DATAGRAM = IpoibState(connected=True, umcast=True), IpoibState(connected=False)
IB = LinkState(replace(NIC, kind="ipoib", arphrd=32, mtu=65520, ipoib=CONNECTED))


def on_eth1(settings: LinkSettings) -> SetLink:
    return SetLink(Ns.HOST, "eth1", settings)


@pytest.mark.parametrize(
    ("mtu", "recreated"), [(65520, 2044), (2044, 2044)], ids=["the most", "as small as before"]
)
def test_recreated_ipoib_link_gets_its_mode_before_its_mtu(mtu: int, recreated: int) -> None:
    before = replace(IB, link=replace(IB.link, mtu=mtu))
    now = replace(IB, link=replace(IB.link, mtu=recreated, ipoib=DATAGRAM, txqlen=9))

    ops = make_plan(RestoreTarget(before), on_host(now))

    assert ops == (
        on_eth1(LinkSettings(txqlen=1000)),
        on_eth1(LinkSettings(ipoib=CONNECTED)),
        on_eth1(LinkSettings(mtu=mtu)),
    )
    assert str(ops[1]) == "set mode connected, umcast 1 on eth1 in host"
    assert not is_usable(RestoreTarget(before), on_host(now)), "the queue is no such detail"
    assert is_usable(
        RestoreTarget(before), on_host(replace(now, link=replace(now.link, txqlen=1000)))
    )


def test_ipoib_mode_changed_by_the_pod_does_not_prevent_the_move() -> None:
    there = replace(IB, link=replace(IB.link, mtu=2044, ipoib=DATAGRAM, txqlen=9))

    ops = make_plan(RestoreTarget(IB), Observed(pod=there, taken_host_names=HOST_NAMES))

    (moved,) = (op for op in ops if isinstance(op, MoveLink))
    assert moved.settings == LinkSettings()
    assert ops[-4:-1] == (
        on_eth1(LinkSettings(txqlen=1000)),
        on_eth1(LinkSettings(ipoib=CONNECTED)),
        on_eth1(LinkSettings(mtu=65520)),
    )


def test_ipoib_mode_unknown_in_the_snapshot_is_unchanged() -> None:
    before = replace(IB, link=replace(IB.link, ipoib=None))

    assert make_plan(RestoreTarget(before), on_host(IB)) == ()
