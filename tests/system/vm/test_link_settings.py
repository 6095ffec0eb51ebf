"""Settings of the link: set by a claim, seen in the pod, and as before on the host."""

import json
import subprocess
from collections.abc import Iterator

import pytest

from dranet_nri.config import parse_network_config
from dranet_nri.errors import AttachError
from dranet_nri.model import NetworkConfig, Phase
from tests.system.kernel.rails import Rails, rails

IPV6 = "net.ipv6.conf.nic0"
ROWS = [
    ({"disableIPv6": True}, f"{IPV6}.disable_ipv6", "1"),
    ({"addrGenMode": "none"}, f"{IPV6}.addr_gen_mode", "1"),
    ({"addrGenMode": "random"}, f"{IPV6}.addr_gen_mode", "3"),
    ({"dadTransmits": 3}, f"{IPV6}.dad_transmits", "3"),
    ({"acceptRA": 2}, f"{IPV6}.accept_ra", "2"),
    ({"acceptRA": 0}, f"{IPV6}.accept_ra", "0"),
    ({"routerSolicitations": -1}, f"{IPV6}.router_solicitations", "-1"),
    ({"routerSolicitationDelay": 5}, f"{IPV6}.router_solicitation_delay", "5"),
    ({"routerSolicitationInterval": 9}, f"{IPV6}.router_solicitation_interval", "9"),
    ({"routerSolicitationMaxInterval": 99}, f"{IPV6}.router_solicitation_max_interval", "99"),
]

LINK: dict[str, object] = {
    "mtu": 1400,
    "hardwareAddr": "02:00:00:00:77:05",
    "txQueueLen": 77,
    "gsoMaxSize": 40000,
    "groMaxSize": 30000,
    "gsoIPv4MaxSize": 20000,
    "groIPv4MaxSize": 10000,
}
# In iproute2, in the same order.
ATTRIBUTES = (
    *("mtu", "address", "txqlen"),
    *("gso_max_size", "gro_max_size", "gso_ipv4_max_size", "gro_ipv4_max_size"),
)


@pytest.fixture
def host() -> Iterator[Rails]:
    with rails(1) as host:
        yield host


def config(interface: dict[str, object], **rest: object) -> NetworkConfig:
    return parse_network_config({"interface": interface, **rest})


def link(host: Rails, pod: int | None = None) -> dict[str, object]:
    (text,) = host.shown("-json -details link show nic0", pod)
    (found,) = json.loads(text)
    return {"altnames": found.get("altnames", []), **{key: found[key] for key in ATTRIBUTES}}


@pytest.mark.parametrize(("interface", "key", "value"), ROWS, ids=str)
def test_sysctl_is_applied_in_the_pod_only(
    host: Rails, interface: dict[str, object], key: str, value: str
) -> None:
    before = host.read_sysctl(key)

    record = host.attach("nic0", config=config(interface))

    assert host.read_sysctl(key, pod=0) == value
    assert host.detach(record).phase is Phase.RESTORED
    assert host.read_sysctl(key) == before


def test_sysctl_set_by_the_host_is_restored(host: Rails) -> None:
    host.write_sysctl(f"{IPV6}.accept_ra=0")
    host.write_sysctl(f"{IPV6}.dad_transmits=7")
    host.write_sysctl(f"{IPV6}.addr_gen_mode=1")
    claimed = {"acceptRA": 2, "dadTransmits": 1, "addrGenMode": "eui64"}

    record = host.attach("nic0", config=config(claimed))

    assert host.read_sysctl(f"{IPV6}.addr_gen_mode", pod=0) == "0"
    assert host.detach(record).phase is Phase.RESTORED
    assert host.read_sysctl(f"{IPV6}.accept_ra") == "0"
    assert host.read_sysctl(f"{IPV6}.dad_transmits") == "7"
    assert host.read_sysctl(f"{IPV6}.addr_gen_mode") == "1"


def test_attributes_of_the_link_are_applied_in_the_pod_and_restored(host: Rails) -> None:
    host.ip("link property add dev nic0 altname enp1s0", "link set nic0 gso_max_size 50000")
    before = link(host)

    record = host.attach("nic0", config=config({"altnames": ["rail0"], **LINK}))

    claimed = dict(zip(ATTRIBUTES, LINK.values(), strict=True))
    assert link(host, pod=0) == {"altnames": ["enp1s0", "rail0"], **claimed}
    assert host.detach(record).phase is Phase.RESTORED
    assert link(host) == before


def test_vrf_is_applied_in_the_pod_and_link_and_routes_are_restored(host: Rails) -> None:
    subprocess.run(("modprobe", "vrf"), check=True)
    host.ip("route add 10.9.0.0/16 via 10.5.0.1 dev nic0")
    before = (host.shown("-4 route show table all"), host.shown("-4 -oneline addr show"))
    claimed = config(
        {"vrf": {"name": "blue"}}, routes=[{"destination": "10.8.0.0/16", "gateway": "10.5.0.1"}]
    )

    record = host.attach("nic0", config=claimed)

    assert host.shown("-4 route show vrf blue", pod=0) == [
        "10.5.0.0/24 dev nic0 proto kernel scope link src 10.5.0.7",
        "10.8.0.0/16 via 10.5.0.1 dev nic0 proto static",
        "10.9.0.0/16 via 10.5.0.1 dev nic0",
    ]
    (vrf,) = host.shown("-oneline -details link show type vrf", pod=0)
    assert "vrf table 1541" in vrf
    assert ",UP," in vrf
    assert any("fd00::7/64" in line for line in host.shown("-6 -oneline addr show nic0", pod=0))
    assert host.read_sysctl("net.ipv4.tcp_l3mdev_accept", pod=0) == "1"
    assert host.read_sysctl("net.ipv4.udp_l3mdev_accept", pod=0) == "1"
    assert host.detach(record).phase is Phase.RESTORED
    assert (host.shown("-4 route show table all"), host.shown("-4 -oneline addr show")) == before


def test_nic_whose_vrf_was_deleted_returns_with_a_report(host: Rails) -> None:
    subprocess.run(("modprobe", "vrf"), check=True)
    host.ip("link add blue type vrf table 10", "link set blue up", "link set nic0 master blue")
    record = host.attach("nic0")
    host.ip("link del blue")

    record = host.detach(record)

    assert record.phase is Phase.RESTORED
    assert record.failure is not None
    assert "its master blue is not on the host" in record.failure.message


def test_existing_vrf_of_the_pod_is_used_if_its_table_matches(host: Rails) -> None:
    subprocess.run(("modprobe", "vrf"), check=True)
    host.ip("link add blue type vrf table 77", pod=0)

    with pytest.raises(AttachError, match=r"EEXIST.* interface\.vrf, or the table of that VRF"):
        host.attach("nic0", config=config({"vrf": {"name": "blue", "table": 78}}))
    record = host.attach("nic0", config=config({"vrf": {"name": "blue", "table": 77}}))

    assert host.shown("-4 route show vrf blue", pod=0)
    assert host.detach(record).phase is Phase.RESTORED
