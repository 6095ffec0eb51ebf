"""Facts of RDMA devices, from sysfs and netlink."""

from pathlib import Path

import pytest

from dranet_nri.facts.infiniband import (
    RdmaNetlinkFacts,
    are_all_visible,
    rdma_devices,
    read_netlink_facts,
)
from dranet_nri.inventory import RdmaDeviceFacts, RdmaPortFacts
from dranet_nri.linux.rdma import types
from tests.fakes.sysfs import FakeSysfs

pytestmark = pytest.mark.process


PF = "0000:8a:00.0"


MLX5 = "class/infiniband/mlx5_0"
GUID = "0c42:a103:0065:5a1e"


def with_hca(root: Path, layer: str = "InfiniBand") -> FakeSysfs:
    """Return a host with one HCA all of whose files have a value."""
    host = FakeSysfs(root)
    host.pci(PF)
    host.rdma("mlx5_0", ("pci", PF), layers=(layer,))
    host.write(f"{MLX5}/sys_image_guid", "0c42:a103:0065:5a10")
    host.write(f"{MLX5}/fw_ver", "28.39.1002")
    port = f"{MLX5}/ports/1"
    host.write(f"{port}/phys_state", "5: LinkUp")
    host.write(f"{port}/lid", "0x1a")
    host.write(f"{port}/sm_lid", "0x1")
    host.write(f"{port}/gids/0", "fe80:0000:0000:0003:0c42:a103:0065:5a1f")
    for number, pkey in enumerate(("0x8012", "0x0000", "0x7fff")):
        host.write(f"{port}/pkeys/{number}", pkey)
    return host


def test_infiniband_device_has_the_facts_of_function_ports_and_fabric(tmp_path: Path) -> None:
    with_hca(tmp_path)

    assert rdma_devices(tmp_path) == (
        RdmaDeviceFacts(
            name="mlx5_0",
            bus="pci",
            parent=PF,
            pci=PF,
            node_type="CA",
            node_guid=GUID,
            ports=(
                RdmaPortFacts(
                    number=1,
                    state="ACTIVE",
                    rate="200 Gb/sec (4X HDR)",
                    link_layer="InfiniBand",
                    phys_state="LinkUp",
                    rate_gbps=200,
                    lid=26,
                    sm_lid=1,
                    subnet_prefix="fe80:0000:0000:0003",
                    guid="0c42:a103:0065:5a1f",
                    pkeys=(0x8012, 0x7FFF),
                ),
            ),
            sys_image_guid="0c42:a103:0065:5a10",
            fw_version="28.39.1002",
            protocol="ib",
        ),
    )


def test_ethernet_port_has_no_fabric_and_no_pkeys(tmp_path: Path) -> None:
    with_hca(tmp_path, "Ethernet")

    ((port,),) = (device.ports for device in rdma_devices(tmp_path))

    assert (port.lid, port.sm_lid, port.subnet_prefix, port.guid) == (0, 0, "", "")
    assert port.pkeys == ()


def test_ports_of_one_device_are_read_separately(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci(PF)
    host.rdma("mlx4_0", ("pci", PF), layers=("InfiniBand", "Ethernet"))
    host.write("class/infiniband/mlx4_0/ports/2/state", "1: DOWN")

    (device,) = rdma_devices(tmp_path)

    reported = [(port.number, port.state, port.link_layer) for port in device.ports]
    assert reported == [(1, "ACTIVE", "InfiniBand"), (2, "DOWN", "Ethernet")]


@pytest.mark.parametrize(
    ("rate", "gbps"),
    [
        ("2.5 Gb/sec (1X SDR)", 2),
        ("100 Gb/sec (4X EDR)", 100),
        ("800 Gb/sec (4X XDR)", 800),
        ("fast", 0),
    ],
)
def test_port_rate_is_rounded_down_to_gbps(tmp_path: Path, rate: str, gbps: int) -> None:
    with_hca(tmp_path).write(f"{MLX5}/ports/1/rate", rate)

    assert rdma_devices(tmp_path)[0].ports[0].rate_gbps == gbps


@pytest.mark.parametrize(
    ("node_type", "layer", "protocol"),
    [
        ("1: CA", "InfiniBand", "ib"),
        ("1: CA", "Ethernet", "roce"),
        ("4: RNIC", "Ethernet", "iw"),
        ("6: usNIC UDP", "Ethernet", "usnic"),
        ("7: unspecified", "Unknown", ""),
        ("<unknown>", "Ethernet", ""),
    ],
)
def test_protocol_without_netlink_follows_from_node_type_and_link_layer(
    tmp_path: Path, node_type: str, layer: str, protocol: str
) -> None:
    with_hca(tmp_path, layer).write(f"{MLX5}/node_type", node_type)

    assert rdma_devices(tmp_path)[0].protocol == protocol


def test_netlink_facts_are_added_to_those_of_sysfs(tmp_path: Path) -> None:
    with_hca(tmp_path, "Ethernet")
    reported = RdmaNetlinkFacts(
        {"mlx5_0": types.RdmaDevice(3, "mlx5_0", protocol="opa", parent="mlx5_9")},
        {("mlx5_0", 1): types.RdmaPort(3, "mlx5_0", 1, netdev="eth7")},
    )

    (device,) = rdma_devices(tmp_path, reported)

    assert (device.index, device.protocol, device.part_of) == (3, "opa", "mlx5_9")
    assert device.ports[0].netdevs == ("eth7",)
    assert device.ports[0].state == "ACTIVE"


def test_port_without_a_net_device_in_netlink_has_none_despite_its_gids(
    tmp_path: Path,
) -> None:
    host = FakeSysfs(tmp_path)
    host.rdma("rxe0", layers=("Ethernet",), gids=("eth0",))
    reported = RdmaNetlinkFacts({}, {("rxe0", 1): types.RdmaPort(0, "rxe0", 1)})

    assert rdma_devices(tmp_path, reported)[0].ports[0].netdevs == ()


def test_device_without_files_has_only_a_name(tmp_path: Path) -> None:
    directory = tmp_path / "devices/virtual/infiniband/efa_0"
    directory.mkdir(parents=True)
    (tmp_path / "class/infiniband").mkdir(parents=True)
    (tmp_path / "class/infiniband/efa_0").symlink_to(directory)

    assert rdma_devices(tmp_path) == (RdmaDeviceFacts("efa_0"),)


def test_removed_device_is_omitted(tmp_path: Path) -> None:
    with_hca(tmp_path)
    (tmp_path / "class/infiniband/gone").mkdir()

    assert [device.name for device in rdma_devices(tmp_path)] == ["mlx5_0"]


@pytest.mark.parametrize(
    "text", ["", "\x1b[31mred", "x" * 5000, "4: ACTIVE\nDOWN", "0x", "-1", "²: ²", "\ud800"]
)
def test_malformed_values_are_ignored(tmp_path: Path, text: str) -> None:
    with_hca(tmp_path)
    files = [path for path in (tmp_path / MLX5).resolve().rglob("*") if path.is_file()]
    layer = (tmp_path / MLX5 / "ports/1/link_layer").resolve()
    (tmp_path / MLX5 / "ports/²").mkdir()
    for path in files:
        if path != layer:
            path.write_bytes(text.encode(errors="surrogatepass"))

    (device,) = rdma_devices(tmp_path)

    guids = [device.node_type, device.node_guid, device.sys_image_guid, device.ports[0].guid]
    assert guids == [""] * 4
    assert all(part.isprintable() for part in (device.fw_version, device.ports[0].rate))
    assert (device.ports[0].state, device.ports[0].lid, device.ports[0].pkeys) == ("", 0, ())


def test_zero_pkeys_at_the_end_of_the_table_are_skipped(tmp_path: Path) -> None:
    host = with_hca(tmp_path)
    for number in range(3, 128):
        host.write(f"{MLX5}/ports/1/pkeys/{number}", "0x8099" if number in (10, 40) else "0x0000")

    assert rdma_devices(tmp_path)[0].ports[0].pkeys == (0x8012, 0x7FFF, 0x8099)


def test_netlink_is_not_opened_without_rdma_devices_in_sysfs(tmp_path: Path) -> None:
    assert read_netlink_facts(tmp_path) == RdmaNetlinkFacts()


def test_net_devices_of_a_software_rdma_device_are_found_by_its_gids(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.rdma("rxe0", layers=("Ethernet",), gids=("eth1", "", "eth1", "eth1.5"))

    (device,) = rdma_devices(tmp_path)

    assert (device.bus, device.parent, device.pci) == ("", "", "")
    assert device.ports[0].netdevs == ("eth1", "eth1.5")


def test_gids_are_not_read_if_the_parent_has_a_net_device(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci(PF)
    host.net("eth1", ("pci", PF))
    host.rdma("mlx5_0", ("pci", PF), layers=("Ethernet",), gids=("eth1",))

    (device,) = rdma_devices(tmp_path)

    assert device.ports[0].netdevs == ()


def test_rdma_device_of_a_subfunction_has_the_subfunction_as_parent(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci(PF)
    host.child("auxiliary", "mlx5_core.sf.2", ("pci", PF))
    host.rdma("mlx5_2", ("auxiliary", "mlx5_core.sf.2"))

    (device,) = rdma_devices(tmp_path)

    assert (device.bus, device.parent, device.pci) == ("auxiliary", "mlx5_core.sf.2", PF)


def test_host_without_rdma_has_no_rdma_devices(tmp_path: Path) -> None:
    assert rdma_devices(tmp_path) == ()


@pytest.mark.parametrize(("mode", "observed"), [("Y", True), ("N", False), ("", False)])
def test_all_rdma_devices_are_visible_only_in_shared_mode(
    tmp_path: Path, mode: str, *, observed: bool
) -> None:
    host = FakeSysfs(tmp_path)
    assert are_all_visible(tmp_path), "without ib_core there is none"

    host.write("module/ib_core/refcnt", "3")
    host.write("module/ib_core/parameters/netns_mode", mode)
    assert are_all_visible(tmp_path) == observed
