"""Addresses from the advertisements of radvd, as a pod gets them, on the real kernel."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dranet_nri.component.clock import SystemClock
from dranet_nri.config import parse_network_config
from dranet_nri.errors import AttachError
from dranet_nri.model import Addressing, InterfaceConfig, NetworkConfig
from tests.box.waiting import wait_until
from tests.capability import lacking
from tests.system.kernel.rails import Rails, rails

SLAAC = NetworkConfig(InterfaceConfig(name="net1", addressing=Addressing.SLAAC))
CONFIG = """\
interface pnic0 {{
    AdvSendAdvert on;
    MinRtrAdvInterval 3;
    MaxRtrAdvInterval 4;
    prefix {prefix} {{ }};
}};
"""


@contextmanager
def radvd(host: Rails, folder: Path, prefix: str) -> Iterator[None]:
    """Advertise a prefix on pnic0 for the length of a block."""
    if shutil.which("radvd") is None:
        lacking("radvd", "apt-get install radvd")
    config = folder / "radvd.conf"
    config.write_text(CONFIG.format(prefix=prefix))
    config.chmod(0o600)  # radvd refuses a file that others can write
    forwarding = "/proc/sys/net/ipv6/conf/all/forwarding"
    host.on_wire("sh", "-c", f"echo 1 > {forwarding}").communicate()
    router = host.on_wire(
        "radvd",
        "--nodaemon",
        f"--config={config}",
        f"--pidfile={folder / 'radvd.pid'}",
        "--logmethod=stderr",
    )
    try:
        yield
        assert router.poll() is None
    finally:
        router.terminate()
        router.communicate()


def usable(host: Rails, prefix: str) -> list[str]:
    """Return the lines of the pod's usable addresses with a prefix."""
    lines = host.shown("-6 -o addr show dev net1 -tentative", pod=0)
    return [line for line in lines if f" {prefix}" in line]


def test_pod_starts_with_an_advertised_address_and_accepts_later_ones(tmp_path: Path) -> None:
    with rails(1, clock=SystemClock()) as host:
        host.write_sysctl("net.ipv6.conf.nic0.accept_ra=0")  # the host keeps what it has
        before = host.shown("-d addr show nic0"), host.routes("root ::/0")
        with radvd(host, tmp_path, "2001:db8:7::/64"):
            record = host.attach("nic0", config=SLAAC)

            (address,) = (cidr for cidr in record.devices[0].addresses if cidr[0] == "2")
            assert address.startswith("2001:db8:7:")
            assert usable(host, address)  # at once: the gate opens now
            assert not usable(host, "fd00:0:")  # the host's
            (route,) = host.shown("-6 route show default dev net1", pod=0)
            assert "proto ra metric 2048" in route
        with radvd(host, tmp_path, "2001:db8:8::/64"):  # no plugin has to run for this
            wait_until("the later prefix", lambda: usable(host, "2001:db8:8:"))

        assert host.detach(record).devices[0].restored
        assert (host.shown("-d addr show nic0"), host.routes("root ::/0")) == before
        assert host.read_sysctl("net.ipv6.conf.nic0.accept_ra") == "0"


def test_child_has_an_advertised_address_of_its_own(tmp_path: Path) -> None:
    claimed = {"type": "MACVLAN", "name": "net1", "addressing": "SLAAC"}
    with rails(1, clock=SystemClock()) as host:
        host.write_sysctl("net.ipv6.conf.nic0.accept_ra=0")  # the parent takes no address
        wait_until("the host's addresses", lambda: not host.shown("addr show nic0 tentative"))
        before = host.shown("-d addr show nic0")
        with radvd(host, tmp_path, "2001:db8:7::/64"):
            record = host.attach("nic0", config=parse_network_config({"interface": claimed}))

            (address,) = (cidr for cidr in record.devices[0].addresses if cidr[0] == "2")
            assert usable(host, address)
            assert host.detach(record).devices[0].restored
        assert host.shown("-d addr show nic0") == before


def test_second_attach_keeps_an_advertised_address(tmp_path: Path) -> None:
    with rails(1, clock=SystemClock()) as host, radvd(host, tmp_path, "2001:db8:7::/64"):
        first = host.attach("nic0", config=SLAAC)

        second = host.attach("nic0", config=SLAAC, before=first)

        (address,) = (cidr for cidr in first.devices[0].addresses if cidr[0] == "2")
        assert usable(host, address)
        assert second.devices[0].addresses == first.devices[0].addresses


def test_nic_without_a_router_is_restored_on_the_host() -> None:
    with rails(1) as host:
        before = host.shown("-d addr show nic0")

        with pytest.raises(AttachError, match="device nic0: no router advertised a prefix to net1"):
            host.attach("nic0", config=SLAAC)

        assert host.shown("-d addr show nic0") == before
