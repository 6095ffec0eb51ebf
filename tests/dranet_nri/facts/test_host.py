"""Facts of the host: PCI names, boot id, node name."""

import os
from pathlib import Path

import pytest

from dranet_nri.errors import InvalidValueError
from dranet_nri.facts.host import boot_id, node_name, pci_names

pytestmark = pytest.mark.process


DATABASE = """\
# a comment with\ta tab

15b3  Mellanox Technologies
\t1021  MT2910 Family [ConnectX-7]
\t\t15b3 0023  a subsystem
\t101e  ConnectX Family mlx5Gen Virtual Function
8086  Intel Corporation
\t10c9  82576 Gigabit Network Connection
C 02  Network controller
\t00  Ethernet controller
"""


def test_pci_names_are_found_for_the_requested_ids_only(tmp_path: Path) -> None:
    (tmp_path / "pci.ids").write_text(DATABASE)
    desired = frozenset({("15b3", "1021"), ("8086", "10c9"), ("8086", "ffff"), ("c0de", "0001")})

    assert pci_names(desired, (tmp_path / "pci.ids",)) == {
        ("15b3", "1021"): ("Mellanox Technologies", "MT2910 Family [ConnectX-7]"),
        ("8086", "10c9"): ("Intel Corporation", "82576 Gigabit Network Connection"),
        ("8086", "ffff"): ("Intel Corporation", "unknown"),
    }


def test_pci_device_classes_are_not_read_as_vendors(tmp_path: Path) -> None:
    (tmp_path / "pci.ids").write_text(DATABASE)

    assert pci_names(frozenset({("C 02", "00  ")}), (tmp_path / "pci.ids",)) == {}


def test_first_readable_database_is_used(tmp_path: Path) -> None:
    (tmp_path / "second").write_text(DATABASE)
    paths = (tmp_path / "first", tmp_path / "second")

    assert ("8086", "10c9") in pci_names(frozenset({("8086", "10c9")}), paths)


def test_missing_database_gives_no_names(tmp_path: Path) -> None:
    assert pci_names(frozenset({("8086", "10c9")}), (tmp_path / "none",)) == {}


def test_boot_id_is_that_of_the_running_kernel() -> None:
    kernel = Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    assert boot_id() == kernel
    assert len(kernel) == 36


@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe"])
def test_unreadable_boot_id_is_an_error(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "boot_id"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(InvalidValueError, match="boot id"):
        boot_id(path)


def test_node_name_is_the_override_or_the_environment_or_the_host_name() -> None:
    reported = {"NODE_NAME": "Worker-8"}
    assert node_name("worker-7", reported) == "worker-7"
    assert node_name("", reported) == "Worker-8"
    assert node_name("", {"NODE_NAME": ""}) == os.uname().nodename.lower()


def test_node_name_is_read_from_the_process_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODE_NAME", "worker-9")
    assert node_name() == "worker-9"
