"""Character devices of RDMA devices, read from sysfs."""

from pathlib import Path

import pytest

from dranet_nri.linux.rdma.chardev import in_sysfs
from dranet_nri.model import CharDevice
from tests.fakes.sysfs import FakeSysfs

pytestmark = pytest.mark.process


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


def test_host_without_rdma_has_no_device_files(tmp_path: Path) -> None:
    assert in_sysfs(tmp_path, "mlx5_0", ALL_KINDS) == ()


def test_device_file_of_every_requested_kind_is_found(tmp_path: Path) -> None:
    with_char_devices(tmp_path)

    assert in_sysfs(tmp_path, "mlx5_0", ALL_KINDS) == (
        CharDevice("/dev/infiniband/issm0", 231, 64),
        CharDevice("/dev/infiniband/rdma_cm", 10, 121),
        CharDevice("/dev/infiniband/umad0", 231, 0),
        CharDevice("/dev/infiniband/uverbs1", 231, 193),
    )


def test_kinds_without_a_file_are_omitted(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.char_device("infiniband_verbs", "uverbs0", "231:192", "mlx5_0")
    host.char_device("infiniband_mad", "umad0", "", "mlx5_0")

    found = in_sysfs(tmp_path, "mlx5_0", ALL_KINDS)

    assert [file.path for file in found] == ["/dev/infiniband/uverbs0"]


def test_invalid_device_number_counts_as_missing(tmp_path: Path) -> None:
    host = FakeSysfs(tmp_path)
    host.char_device("misc", "rdma_cm", "ten:12")

    assert in_sysfs(tmp_path, "mlx5_0", ("rdma_cm",)) == ()
