"""Addressing modes of an interface (inherited, DHCP, SLAAC), and links shared with other pods."""

from dataclasses import replace

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    Address,
    Addressing,
    AddressMode,
    InterfaceConfig,
    IpvlanConfig,
    Link,
    LinkState,
    NetworkConfig,
    Route,
)
from dranet_nri.plan.inherit import IFA_F_NODAD, RTPROT_RA
from dranet_nri.plan.pod_network import PodNetwork, child_network, pod_network

HOST = LinkState(
    Link(4, "eth1"),
    addresses=(Address("10.5.0.7/24"), Address("fd00::7/64")),
    routes=(
        Route("10.9.0.0/16", "10.5.0.1"),
        Route("fd09::/16", "fe80::1", protocol=RTPROT_RA),
        Route("fd0a::/16", "fe80::1"),
    ),
)
AUTOMATIC = InterfaceConfig(addressing=Addressing.SLAAC)


def values(network: PodNetwork) -> dict[str, str]:
    """Return the IPv6 sysctls by key."""
    return {sysctl.key: sysctl.value for sysctl in network.sysctls if sysctl.family == "ipv6"}


def test_slaac_inherits_ipv4_and_ipv6_routes_not_from_a_router() -> None:
    network = pod_network(NetworkConfig(AUTOMATIC), HOST)

    assert [address.cidr for address in network.addresses] == ["10.5.0.7/24"]
    assert {route.destination for route in network.routes} == {"10.9.0.0/16", "fd0a::/16"}
    assert network.is_dynamic


def test_dhcp_inherits_no_address() -> None:
    network = pod_network(NetworkConfig(InterfaceConfig(addressing=Addressing.DHCP)), HOST)

    assert network.addresses == ()
    assert network.is_dynamic


def test_slaac_has_the_defaults_of_dranet() -> None:
    assert values(pod_network(NetworkConfig(AUTOMATIC), HOST)) == {
        "disable_ipv6": "0",
        "dad_transmits": "0",
        "accept_ra": "2",
        "router_solicitation_delay": "0",
        "router_solicitation_interval": "1",
        "autoconf": "1",
        "accept_ra_pinfo": "1",
        "ra_defrtr_metric": "2048",
    }


def test_claimed_sysctls_replace_the_slaac_defaults() -> None:
    given = replace(AUTOMATIC, accept_ra=1, dad_transmits=3, router_solicitation_delay=5)

    found = values(pod_network(NetworkConfig(given), HOST))

    assert (found["accept_ra"], found["dad_transmits"]) == ("1", "3")
    assert found["router_solicitation_delay"] == "5"


def test_claimed_mac_address_keeps_duplicate_address_detection() -> None:
    given = replace(AUTOMATIC, hardware_addr="02:00:00:00:00:09")

    assert "dad_transmits" not in values(pod_network(NetworkConfig(given), HOST))


def test_ipvlan_child_gets_a_random_address_mode() -> None:
    link = IpvlanConfig()

    found = values(child_network(NetworkConfig(replace(AUTOMATIC, ipvlan=link)), link, HOST))

    assert found["addr_gen_mode"] == "3"
    assert "dad_transmits" not in found


def test_claimed_address_mode_is_kept() -> None:
    given = replace(AUTOMATIC, ipvlan=IpvlanConfig(), addr_gen_mode=AddressMode.EUI64)

    assert values(pod_network(NetworkConfig(given), HOST))["addr_gen_mode"] == "0"


def test_slaac_requires_the_ipv6_minimum_mtu() -> None:
    with pytest.raises(RefusedError, match="cannot have addressing SLAAC"):
        pod_network(NetworkConfig(replace(AUTOMATIC, mtu=1000)), HOST)


def test_duplicate_address_detection_is_disabled_except_on_a_shared_link() -> None:
    given = NetworkConfig(InterfaceConfig(addresses=("fd00::9/64",)))

    alone, shared = (pod_network(given, HOST, shared=shared) for shared in (False, True))

    assert [address.flags for address in alone.addresses] == [IFA_F_NODAD]
    assert [address.flags for address in shared.addresses] == [0]
