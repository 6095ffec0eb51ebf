"""IPv6 of a pod's device below the minimum MTU."""

from dataclasses import replace

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    Address,
    InterfaceConfig,
    LinkState,
    Neighbour,
    NeighbourConfig,
    NetworkConfig,
    Route,
    RouteConfig,
    Sysctl,
)
from dranet_nri.plan.pod_network import pod_network
from tests.dranet_nri.plan.examples import FULL, PLAIN

NODAD = 0x02  # IFA_F_NODAD, linux/if_addr.h
SMALL = InterfaceConfig(mtu=1279)
V4_ONLY = replace(SMALL, addresses=("10.1.0.5/24",))
SMALL_LINK = replace(FULL.link, mtu=1279)
NEIGHBOUR_V6 = Neighbour("2001:db8::1", "02:00:00:00:00:fd")


@pytest.mark.parametrize(
    ("config", "host", "reason"),
    [
        pytest.param(
            NetworkConfig(InterfaceConfig(addresses=("2001:db8::6/64",))),
            replace(PLAIN, link=SMALL_LINK),
            "2001:db8::6/64",
            id="an address of the claim, on a link that is small already",
        ),
        pytest.param(
            NetworkConfig(V4_ONLY, routes=(RouteConfig("2001:db8:7::/48", "fe80::1"),)),
            FULL,
            "2001:db8:7::/48",
            id="a route of the claim",
        ),
        pytest.param(
            NetworkConfig(
                V4_ONLY, neighbors=(NeighbourConfig("2001:db8::1", "02:00:00:00:00:aa"),)
            ),
            FULL,
            "2001:db8::1",
            id="a neighbour of the claim",
        ),
    ],
)
def test_ipv6_configuration_below_the_minimum_mtu_is_refused(
    config: NetworkConfig, host: LinkState, reason: str
) -> None:
    with pytest.raises(RefusedError, match=r"interface\.mtu 1279") as caught:
        pod_network(config, host)

    assert f"cannot have {reason}: IPv6 needs 1280; set interface.mtu" in str(caught.value)


def test_inherited_ipv6_address_below_the_minimum_mtu_is_omitted_with_a_warning() -> None:
    network = pod_network(NetworkConfig(SMALL), FULL)

    assert network.addresses == (Address("10.1.0.5/24"),)
    assert network.warnings == (
        "left out, because its MTU is too small for IPv6: address 2001:db8::5/64 of the host",
    )


def test_ipv6_that_the_claim_disables_is_omitted_without_a_warning() -> None:
    network = pod_network(NetworkConfig(InterfaceConfig(disable_ipv6=True)), FULL)

    assert network.addresses == (Address("10.1.0.5/24"),)
    assert network.warnings == ()


def test_ipv6_is_not_inherited_below_the_minimum_mtu() -> None:
    host = replace(
        FULL,
        routes=(*FULL.routes, Route("2001:db8:8::/48", metric=1024)),
        neighbours=(*FULL.neighbours, NEIGHBOUR_V6),
    )
    config = NetworkConfig(replace(V4_ONLY, forwarding=True))

    network = pod_network(config, host)

    assert network.addresses == (Address("10.1.0.5/24"),)
    assert network.routes == tuple(route for route in FULL.routes if ":" not in route.destination)
    assert network.neighbours == FULL.neighbours
    assert network.sysctls == (Sysctl("ipv4", "forwarding", "1"),)


def test_ipv6_is_inherited_from_the_minimum_mtu_on() -> None:
    network = pod_network(NetworkConfig(InterfaceConfig(mtu=1280)), FULL)

    assert Address("2001:db8::5/64", flags=NODAD) in network.addresses
