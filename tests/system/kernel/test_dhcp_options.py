"""Unusual answers of DHCP servers, as pods get them, on the real kernel."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from dranet_nri.kernel.session import NetlinkSession
from dranet_nri.model import (
    FOREVER,
    Addressing,
    InterfaceConfig,
    NetworkConfig,
    Phase,
    RouteConfig,
)
from tests.fakes.dhcp import GIVEN, FakeDhcpServer
from tests.system.kernel.rails import Rails, rails

LEASED = NetworkConfig(InterfaceConfig(name="net1", addressing=Addressing.DHCP))
LOCAL = "169.254.169.254"  # the servers of clouds
NEAR = ("10.2.0.0/16", "10.77.0.9")


@pytest.fixture
def host() -> Iterator[Rails]:
    """Return a host with one NIC."""
    with rails(1) as made:
        yield made


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeDhcpServer:
    """Return the server of all links."""
    made = FakeDhcpServer()
    monkeypatch.setattr(NetlinkSession, "dhcp", lambda *_: made)
    return made


ANSWERS = {
    "no router": ({}, []),
    "unspecified router": ({"routers": ("0.0.0.0",)}, []),
    "broadcast address, then a router": (
        {"routers": ("255.255.255.255", "10.77.0.254")},
        ["default via 10.77.0.254 proto dhcp metric 2048"],
    ),
    "router with the address of the client": (
        {"routers": ("10.77.0.50",)},
        ["default proto dhcp scope link metric 2048"],
    ),
    "no mask": (
        {"mask": None, "routers": ("10.0.0.1",)},
        ["default via 10.0.0.1 proto dhcp metric 2048"],
    ),
    "/32 and a router elsewhere": (
        {"mask": 32, "routers": ("10.9.9.9",), "server": LOCAL},
        ["10.9.9.9 proto dhcp scope link", "default via 10.9.9.9 proto dhcp metric 2048"],
    ),
    "/31": (
        {"mask": 31, "routers": ("10.77.0.51",)},
        ["default via 10.77.0.51 proto dhcp metric 2048"],
    ),
    "default route on the link": (
        {"routes": (("0.0.0.0/0", "0.0.0.0"),), "routers": ("10.77.0.254",)},
        ["default proto dhcp scope link metric 2048"],
    ),
    "two default routes": (
        {"routes": (("0.0.0.0/0", "10.77.0.1"), ("0.0.0.0/0", "10.77.0.2"))},
        ["default via 10.77.0.1 proto dhcp metric 2048"],
    ),
    "one route twice": ({"routes": (NEAR, NEAR)}, ["10.2.0.0/16 via 10.77.0.9 proto dhcp"]),
    "gateways of no host": (
        {
            "routes": (
                *(("10.1.0.0/16", "224.0.0.1"), ("10.3.0.0/16", "127.0.0.1")),
                *(("10.4.0.0/16", "255.255.255.255"), ("10.5.0.0/16", "10.77.0.50")),
                NEAR,
            )
        },
        ["10.2.0.0/16 via 10.77.0.9 proto dhcp", "10.5.0.0/16 proto dhcp scope link"],
    ),
    "only MTU too small for IPv4": ({"mtu": 67}, []),
    "MTU for IPv4 only": ({"mtu": 576}, []),
    "infinite lease": ({"lease_s": FOREVER}, []),
    "lease of a second": ({"lease_s": 1}, []),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_pod_starts_with_an_unusual_answer(host: Rails, server: FakeDhcpServer, case: str) -> None:
    fields, routes = ANSWERS[case]
    server.gives = replace(GIVEN, **fields)  # type: ignore[arg-type]
    before = host.shown("-d addr show nic0"), host.routes("root 0.0.0.0/0")

    record = host.attach("nic0", config=LEASED)

    lines = host.routes("dev net1", pod=0)
    assert [line for line in lines if "proto dhcp" in line] == sorted(routes)
    assert host.detach(record).phase is Phase.RESTORED
    assert (host.shown("-d addr show nic0"), host.routes("root 0.0.0.0/0")) == before


def test_ipv6_of_the_claim_is_kept_in_spite_of_a_small_mtu(
    host: Rails, server: FakeDhcpServer
) -> None:
    server.gives = replace(GIVEN, mtu=576)
    config = replace(LEASED, routes=(RouteConfig("2001:db8:7::/48", "fe80::1"),))

    record = host.attach("nic0", config=config)

    assert record.devices[0].warnings == (
        "network: MTU 576 of the DHCP server is too small for IPv6",
    )
    assert host.routes("2001:db8:7::/48", pod=0)
