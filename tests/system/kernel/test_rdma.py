"""Kernels without RDMA, and device files known only to sysfs."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from dranet_nri.kernel.rdma import files_of, port_parents
from dranet_nri.linux.rdma.multicast import open_monitor
from dranet_nri.linux.rdma.socket import NETLINK_RDMA, RdmaSocket, open_here
from dranet_nri.linux.rdma.types import CharDev, CharDevKind, RdmaDevice, RdmaPort
from tests.fakes.sysfs import FakeSysfs

PF = "0000:8a:00.0"


def kernel_has_rdma() -> bool:
    """Whether the kernel has the protocol."""
    try:
        socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_RDMA).close()
    except OSError:
        return False
    return True


def test_rdma_socket_exists_if_the_kernel_has_rdma() -> None:
    rdma = open_here()

    assert (rdma is not None) == kernel_has_rdma()
    if rdma is not None:
        rdma.close()


def test_rdma_monitor_requires_rdma() -> None:
    monitor = open_monitor()

    assert monitor is None or kernel_has_rdma()
    if monitor is not None:
        monitor.close()


@dataclass
class Answers:
    """Netlink answers for the device of index 4, which has two ports."""

    managed: bool = False

    def ports(self, _what: str, index: int) -> tuple[RdmaPort, ...]:
        assert index == 4
        return (RdmaPort(4, "mlx5_0", 1), RdmaPort(4, "mlx5_0", 2))

    def device_at(self, _what: str, index: int) -> RdmaDevice:
        return RdmaDevice(index, "mlx5_0")

    def char_device(
        self, _what: str, kind: CharDevKind, _index: int, port: int = 1
    ) -> CharDev | None:
        if kind is CharDevKind.ISSM and not self.managed:
            return None
        return CharDev(kind, f"{kind}{port + 1}", 231, 64 + port)


def device_files(sysfs: Path, kinds: Sequence[str], *, managed: bool = False) -> list[str]:
    found = files_of(cast("RdmaSocket", Answers(managed)), sysfs, 4, kinds)
    return [f"{char_device.path} {char_device.major}:{char_device.minor}" for char_device in found]


@pytest.fixture
def fabric(tmp_path: Path) -> FakeSysfs:
    """Return the sysfs of a host with two devices that a subnet manager can use."""
    host = FakeSysfs(tmp_path)
    for number, device in enumerate(("mlx5_1", "mlx5_0", "mlx5_0")):
        host.char_device("infiniband_mad", f"issm{number}", f"231:{70 + number}", device)
    return host


def test_issm_files_are_found_in_sysfs_if_netlink_lacks_them(
    fabric: FakeSysfs, tmp_path: Path
) -> None:
    assert device_files(tmp_path, ("uverbs", "issm")) == [
        "/dev/infiniband/uverbs2 231:65",
        "/dev/infiniband/issm1 231:71",
        "/dev/infiniband/issm2 231:72",
    ]
    assert device_files(tmp_path, ("uverbs",)) == ["/dev/infiniband/uverbs2 231:65"]


def test_device_files_in_netlink_are_not_read_from_sysfs(fabric: FakeSysfs, tmp_path: Path) -> None:
    assert device_files(tmp_path, ("issm",), managed=True) == [
        "/dev/infiniband/issm2 231:65",
        "/dev/infiniband/issm3 231:66",
    ]


def test_device_file_of_ambiguous_ownership_is_omitted(fabric: FakeSysfs, tmp_path: Path) -> None:
    fabric.char_device("infiniband_mad", "issm3", "231:73", "mlx5_0")

    assert device_files(tmp_path, ("issm",)) == []


@pytest.mark.parametrize(("name", "ports"), [("bond0", {("pci", PF)}), ("br0", set()), ("", set())])
def test_parents_of_the_ports_are_found_for_a_bond_only(
    tmp_path: Path, name: str, ports: set[tuple[str, str]]
) -> None:
    host = FakeSysfs(tmp_path)
    host.pci(PF)
    host.net("ens1f0", ("pci", PF))
    for upper in ("bond0", "br0"):
        host.net(upper)
        place = tmp_path / "class/net" / upper
        (place / "lower_ens1f0").symlink_to(tmp_path / "class/net/ens1f0")
    (tmp_path / "class/net/bond0/bonding").mkdir()

    assert set(port_parents(str(tmp_path), name)) == ports
