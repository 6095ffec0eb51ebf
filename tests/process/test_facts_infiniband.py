from pathlib import Path

from dranet_nri.facts.infiniband import char_devices, missing_kinds, rdma_devices
from dranet_nri.inventory import RdmaDevice, RdmaPort
from dranet_nri.model import CharDevice
from tests.fakes.sysfs import FakeSysfs

PF = "0000:8a:00.0"
ALL_KINDS = ("uverbs", "rdma_cm", "umad", "issm")


def with_char_devices(root: Path) -> FakeSysfs:
    host = FakeSysfs(root)
    host.char_device("infiniband_verbs", "uverbs0", "231:192", "mlx5_1")
    host.char_device("infiniband_verbs", "uverbs1", "231:193", "mlx5_0")
    host.char_device("infiniband_mad", "umad0", "231:0", "mlx5_0")
    host.char_device("infiniband_mad", "issm0", "231:64", "mlx5_0")
    host.char_device("infiniband_mad", "umad1", "231:1", "mlx5_1")
    host.char_device("misc", "rdma_cm", "10:121")
    return host


def test_an_infiniband_device_tells_its_function_and_its_ports(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci(PF)
    host.rdma("mlx5_0", ("pci", PF), layers=("InfiniBand", "InfiniBand"))

    assert rdma_devices(tmp_path) == (
        RdmaDevice(
            "mlx5_0",
            "pci",
            PF,
            PF,
            "CA",
            "0c42:a103:0065:5a1e",
            (
                RdmaPort(1, "ACTIVE", "200 Gb/sec (4X HDR)", "InfiniBand"),
                RdmaPort(2, "ACTIVE", "200 Gb/sec (4X HDR)", "InfiniBand"),
            ),
        ),
    )


def test_a_software_rdma_device_tells_its_net_devices_by_its_gids(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.rdma("rxe0", layers=("Ethernet",), gids=("eth1", "", "eth1", "eth1.5"))

    (device,) = rdma_devices(tmp_path)

    assert (device.bus, device.parent, device.pci) == ("", "", "")
    assert device.ports[0].netdevs == ("eth1", "eth1.5")


def test_gids_are_not_read_where_the_parent_has_a_net_device(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci(PF)
    host.net("eth1", ("pci", PF))
    host.rdma("mlx5_0", ("pci", PF), layers=("Ethernet",), gids=("eth1",))

    (device,) = rdma_devices(tmp_path)

    assert device.ports[0].netdevs == ()


def test_a_subfunctions_rdma_device_has_the_subfunction_as_parent(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.pci(PF)
    host.child("auxiliary", "mlx5_core.sf.2", ("pci", PF))
    host.rdma("mlx5_2", ("auxiliary", "mlx5_core.sf.2"))

    (device,) = rdma_devices(tmp_path)

    assert (device.bus, device.parent, device.pci) == ("auxiliary", "mlx5_core.sf.2", PF)


def test_a_host_without_rdma_has_no_devices_and_no_files(tmp_path: Path) -> None:
    assert rdma_devices(tmp_path) == ()
    assert char_devices("mlx5_0", ALL_KINDS, sysfs=tmp_path) == ()


def test_by_default_a_container_gets_verbs_and_the_connection_manager(tmp_path: Path) -> None:
    with_char_devices(tmp_path)

    assert char_devices("mlx5_0", sysfs=tmp_path) == (
        CharDevice("/dev/infiniband/rdma_cm", 10, 121),
        CharDevice("/dev/infiniband/uverbs1", 231, 193),
    )


def test_every_kind_that_is_asked_for_is_found_by_its_rdma_device(tmp_path: Path) -> None:
    with_char_devices(tmp_path)

    found = char_devices("mlx5_0", ALL_KINDS, sysfs=tmp_path)

    assert [(file.path, file.minor) for file in found] == [
        ("/dev/infiniband/issm0", 64),
        ("/dev/infiniband/rdma_cm", 121),
        ("/dev/infiniband/umad0", 0),
        ("/dev/infiniband/uverbs1", 193),
    ]
    assert missing_kinds(found, ALL_KINDS) == ()


def test_kinds_without_a_file_are_left_out_and_named(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.char_device("infiniband_verbs", "uverbs0", "231:192", "mlx5_0")
    host.char_device("infiniband_mad", "umad0", "", "mlx5_0")

    found = char_devices("mlx5_0", ALL_KINDS, sysfs=tmp_path)

    assert [file.path for file in found] == ["/dev/infiniband/uverbs0"]
    assert missing_kinds(found, ALL_KINDS) == ("rdma_cm", "umad", "issm")


def test_a_number_that_makes_no_sense_counts_as_missing(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.char_device("misc", "rdma_cm", "ten:12")

    assert char_devices("mlx5_0", ("rdma_cm",), sysfs=tmp_path) == ()
