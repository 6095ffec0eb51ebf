"""Inherited configuration in a pod, and the warnings for the rest, on the real kernel."""

import pytest

from dranet_nri.errors import AttachError
from dranet_nri.model import InterfaceConfig, NetworkConfig, Phase, RouteConfig
from tests.box.waiting import wait_until
from tests.system.kernel.rails import rails

OFF = ("net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")


@pytest.mark.parametrize("off", [OFF, OFF[1:]], ids=["everywhere", "for new links"])
def test_ipv6_of_the_host_is_omitted_with_a_warning_in_a_pod_without_ipv6(
    off: tuple[str, ...],
) -> None:
    with rails(1) as host:
        host.ip("-6 route add fd99::/48 via fd00::1 dev nic0")
        host.ip("neigh add fd00::9 lladdr 02:00:00:00:00:09 dev nic0")
        before = (host.shown("-6 addr show nic0"), host.routes("fd99::/48"))
        for setting in off:
            host.sysctl(setting, pod=0)

        record = host.attach("nic0")

        (device,) = record.devices
        assert record.phase is Phase.ATTACHED
        assert "10.5.0.7/24" in device.addresses
        assert "fd00::7/64" not in "".join((*device.addresses, *host.shown("addr", pod=0)))
        assert any(
            "add address fd00:" in warning and "EACCES" in warning for warning in device.warnings
        )
        assert any("add route fd99::/48" in warning for warning in device.warnings)
        assert host.detach(record).phase is Phase.RESTORED
        assert (host.shown("-6 addr show nic0"), host.routes("fd99::/48")) == before


@pytest.mark.parametrize(
    "config",
    [
        NetworkConfig(InterfaceConfig(addresses=("10.9.0.1/24", "fd77::7/64"))),
        NetworkConfig(routes=(RouteConfig("fd77::/48", "fe80::1"),)),
    ],
    ids=["address", "route"],
)
def test_claimed_ipv6_is_enabled_on_the_link_only(config: NetworkConfig) -> None:
    with rails(1) as host:
        for setting in OFF:
            host.sysctl(setting, pod=0)

        record = host.attach("nic0", config=config)

        shown = " ".join((*host.shown("-6 addr", pod=0), *host.shown("-6 route", pod=0)))
        assert "fd77::" in shown
        assert "dev eth0" not in shown
        assert record.devices[0].warnings == ()


def test_claimed_route_rejected_by_the_kernel_fails_the_attach() -> None:
    with rails(1) as host, pytest.raises(AttachError, match="ENETUNREACH"):
        host.attach("nic0", config=NetworkConfig(routes=(RouteConfig("10.7.0.0/16", "10.9.9.9"),)))


def test_inherited_addresses_keep_their_flags_and_peers() -> None:
    with rails(1) as host:
        host.ip("addr flush dev nic0 scope global")
        for arguments in (
            "10.3.0.5 peer 10.3.0.6/32",
            "10.4.0.5/24 noprefixroute",
            "10.8.0.5/24 valid_lft 900 preferred_lft 800",
            "fd01::5/64 nodad noprefixroute",
            "fd02::5/64 nodad mngtmpaddr valid_lft 900 preferred_lft 800",
            "fd03::5/64 nodad valid_lft 900 preferred_lft 0",
        ):
            host.ip(f"addr add {arguments} dev nic0")
        host.ip("route add 10.66.0.0/16 via 10.3.0.6 dev nic0")

        record = host.attach("nic0")

        shown = host.shown("-oneline addr show nic0", pod=0)
        lines = [line for line in shown if "scope global" in line]
        assert [line.split(" ")[3] for line in lines] == [
            "10.3.0.5",
            "10.4.0.5/24",
            "10.8.0.5/24",
            "fd01::5/64",
        ]
        assert all("valid_lft forever preferred_lft forever" in line for line in lines)
        assert ["noprefixroute" in line for line in lines] == [False, True, False, True]
        assert "peer 10.3.0.6/32" in lines[0]
        assert host.routes("10.66.0.0/16", pod=0) == ["10.66.0.0/16 via 10.3.0.6 dev nic0"]
        assert host.routes("10.4.0.0/24", pod=0) == []
        reported = " ".join(record.devices[0].warnings)
        assert "fd02::5/64" in reported
        assert "fd03::5/64" in reported
        assert host.detach(record).failure is None


def test_peer_route_of_an_ipv6_address_is_added_in_the_pod_and_restored() -> None:
    ways = ["fd01::6 dev nic0 proto kernel metric 256 pref medium"]
    with rails(1) as host:
        host.ip("addr add fd01::5 peer fd01::6 dev nic0 nodad")
        wait_until("the kernel to add the route", lambda: host.routes("fd01::6") == ways)
        host.ip("-6 route add fd66::/48 via fd01::6 dev nic0")
        before = host.shown("-6 route show dev nic0")

        record = host.attach("nic0")

        assert host.routes("fd01::6", pod=0) == ways
        assert len(host.routes("fd66::/48", pod=0)) == 1
        assert host.detach(record).failure is None
        assert host.shown("-6 route show dev nic0") == before


def test_multipath_route_over_several_nics_of_a_pod_is_reported() -> None:
    with rails(2) as host:
        host.ip(
            "route add 10.64.0.0/10 nexthop via 10.5.0.1 dev nic0 nexthop via 10.5.1.1 dev nic1"
        )

        record = host.attach("nic0", "nic1")

        for device, other in zip(record.devices, ("nic1", "nic0"), strict=True):
            assert f"it goes over {other} too: route 10.64.0.0/10" in device.warnings[0]


@pytest.mark.parametrize("value", [0, 1, 2])
def test_accept_ra_is_set_as_claimed(value: int) -> None:
    with rails(1) as host:
        record = host.attach("nic0", config=NetworkConfig(InterfaceConfig(accept_ra=value)))

        assert record.phase is Phase.ATTACHED
        assert host.read_sysctl("net.ipv6.conf.nic0.accept_ra", pod=0) == str(value)
