"""Address, routes and MTU of a pod's network from a lease."""

from dataclasses import replace
from errno import EEXIST

import pytest

from dranet_nri.dhcp import Granted
from dranet_nri.model import FOREVER, Address, Lease, Link, Neighbour, Ns, Route, VrfConfig
from dranet_nri.plan.lease_network import network_with_lease
from dranet_nri.plan.lease_ops import DropAddress, LeaseAddress, add_lease
from dranet_nri.plan.ops import AddRoute, LinkSettings
from dranet_nri.plan.optional import is_optional
from dranet_nri.plan.pod_network import PodNetwork
from tests.dranet_nri.plan.test_optional import error

LEASE = Lease("10.77.0.50/24", "10.77.0.1", "02:00:00:00:00:fe", 1000, 120, 60, 105)
LINK = Link(3, "net1", mtu=1500, min_mtu=68, max_mtu=9000)
DEFAULT = Route("0.0.0.0/0", gateway="10.77.0.254", protocol=16)
FAR = Route("10.88.0.0/16", gateway="10.77.0.9", protocol=16)


def test_leased_address_has_the_remaining_lifetime_of_the_lease() -> None:
    assert add_lease("net1", LEASE, 1020.0) == LeaseAddress(
        Ns.POD, "net1", Address("10.77.0.50/24", valid_s=100, preferred_s=100)
    )
    assert add_lease("net1", LEASE, 1120.0).address.valid_s == 1
    forever = add_lease("net1", replace(LEASE, lease_s=FOREVER), 1e9)
    assert forever.address == Address("10.77.0.50/24")


def test_lease_operations_are_printed() -> None:
    lasting = add_lease("net1", replace(LEASE, lease_s=FOREVER), 0.0)

    assert str(add_lease("net1", LEASE, 1000.0)) == (
        "add address 10.77.0.50/24 for 120 s to net1 in pod"
    )
    assert str(lasting) == "add address 10.77.0.50/24 forever to net1 in pod"
    assert str(DropAddress(Ns.POD, "net1", "10.77.0.50/24")) == (
        "delete address 10.77.0.50/24 of net1 in pod"
    )


def test_leased_routes_follow_those_of_the_claim_with_a_higher_metric() -> None:
    claimed = Route("10.88.0.0/16", gateway="10.77.0.1", protocol=4)
    own = Route("10.77.0.0/24", scope=253, protocol=16)

    network = network_with_lease(
        PodNetwork("net1", routes=(claimed,)), Granted(LEASE, (FAR, DEFAULT, own)), LINK
    )

    assert network.addresses == (Address("10.77.0.50/24"),)
    assert network.routes == (claimed, replace(DEFAULT, metric=2048))
    assert is_optional(
        network.inherited, AddRoute(Ns.POD, "net1", network.routes[1]), error(EEXIST)
    )
    assert not is_optional(network.inherited, AddRoute(Ns.POD, "net1", claimed), error(EEXIST))


def test_gateway_outside_the_network_gets_a_route_first() -> None:
    single = replace(LEASE, address="10.77.0.50/32")
    direct = Route("10.88.0.0/16", scope=253, protocol=16)
    beyond = Route("10.99.0.0/16", gateway="10.88.0.1", protocol=16)

    network = network_with_lease(
        PodNetwork("net1"), Granted(single, (DEFAULT, beyond, direct)), LINK
    )

    assert network.routes == (
        Route("10.77.0.254/32", scope=253, protocol=16),
        direct,
        replace(DEFAULT, metric=2048),
        beyond,
    )


def test_leased_routes_in_a_vrf_are_in_its_table() -> None:
    network = network_with_lease(
        PodNetwork("net1", vrf=VrfConfig("blue", 1541)), Granted(LEASE, (FAR,)), LINK
    )

    assert network.routes == (replace(FAR, table=1541),)


@pytest.mark.parametrize(
    ("claimed", "given", "mtu"),
    [
        (None, 1400, 1400),
        (None, 9000, 9000),
        (None, 9001, None),
        (None, 67, None),
        (None, 0, None),
        (4000, 1400, 4000),
    ],
)
def test_leased_mtu_is_used_if_the_link_supports_it(
    claimed: int | None, given: int, mtu: int | None
) -> None:
    network = PodNetwork("net1", LinkSettings(mtu=claimed))

    assert network_with_lease(network, Granted(LEASE, mtu=given), LINK).settings.mtu == mtu
    assert network_with_lease(
        network, Granted(LEASE, mtu=0), replace(LINK, min_mtu=0)
    ).settings == (network.settings)


@pytest.mark.parametrize(
    "network",
    [
        PodNetwork("net1", addresses=(Address("fd00::7/64"),)),
        PodNetwork("net1", routes=(Route("2001:db8::/48", "fe80::1"),)),
        PodNetwork("net1", neighbours=(Neighbour("fd00::9", "02:00:00:00:00:09"),)),
    ],
)
def test_leased_mtu_that_is_too_small_for_ipv6_is_omitted_with_a_warning(
    network: PodNetwork,
) -> None:
    small = network_with_lease(network, Granted(LEASE, mtu=1279), LINK)

    assert small.settings.mtu is None
    assert small.warnings == ("MTU 1279 of the DHCP server is too small for IPv6",)
    enough = network_with_lease(network, Granted(LEASE, mtu=1280), LINK)
    assert (enough.settings.mtu, enough.warnings) == (1280, ())
    none = network_with_lease(network, Granted(LEASE, mtu=0), replace(LINK, min_mtu=0))
    assert (none.settings.mtu, none.warnings) == (None, ())


def test_link_without_mtu_limits_accepts_any_mtu() -> None:
    unbounded = replace(LINK, min_mtu=0, max_mtu=0)

    assert (
        network_with_lease(PodNetwork("net1"), Granted(LEASE, mtu=60000), unbounded).settings.mtu
        == 60000
    )
