"""Connections to storage, from files in the form of the kernel."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from dranet_nri.linux import storage
from dranet_nri.linux.storage import StorageConnection, storage_connections

REMOTE, OWN = bytes((10, 5, 0, 9)), bytes((10, 5, 0, 7))
LINK_LOCAL = bytes.fromhex("fe800000000000000000000000000009")
SESSION = "devices/platform/host3/session1/connection1:0"
HOST = "devices/platform/host3/iscsi_host/host3"
ISCSI = "class/iscsi_connection/connection1:0"
NVME = "class/nvme-fabrics/ctl"


@pytest.fixture(autouse=True)
def sysfs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return an empty sysfs, beside an empty list of NFS servers."""
    monkeypatch.setattr(storage, "SYSFS", tmp_path)
    monkeypatch.setattr(storage, "NFS_SERVERS", tmp_path / "servers")
    return tmp_path


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files below a directory."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")


def test_node_without_storage_has_no_connections() -> None:
    assert [*storage_connections()] == []


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(
            {"address": "10.5.0.9", f"../../../../{HOST}/ipaddress": "10.5.0.7"},
            StorageConnection("iSCSI", REMOTE, OWN),
            id="connected",
        ),
        pytest.param(
            {
                "address": "",
                "persistent_address": "10.5.0.9",
                f"../../../../{HOST}/netdev": "eth1",
            },
            StorageConnection("iSCSI", REMOTE, b"", "eth1"),
            id="reconnecting, bound to a link",
        ),
        pytest.param(
            {"persistent_address": "storage.example"}, StorageConnection("iSCSI", b""), id="a name"
        ),
    ],
)
def test_iscsi_connection_has_target_and_source(
    sysfs: Path, files: Mapping[str, str], expected: StorageConnection
) -> None:
    folder = sysfs / SESSION / "iscsi_connection/connection1:0"
    write(folder, {"port": "3260"})
    (folder / "device").symlink_to("../../../connection1:0")
    (sysfs / ISCSI).parent.mkdir(parents=True)
    (sysfs / ISCSI).symlink_to(folder)
    write(folder, {name: text for name, text in files.items() if not name.startswith("..")})
    write(sysfs, {name[12:]: text for name, text in files.items() if name.startswith("..")})

    assert [*storage_connections()] == [expected]


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        pytest.param(
            "traddr=10.5.0.9,trsvcid=4420,src_addr=10.5.0.7",
            StorageConnection("NVMe", REMOTE, OWN),
            id="source of the connection",
        ),
        pytest.param(
            "traddr=10.5.0.9,trsvcid=4420,host_traddr=10.5.0.7,host_iface=eth1",
            StorageConnection("NVMe", REMOTE, OWN, "eth1"),
            id="bound",
        ),
        pytest.param(
            "traddr=fe80::9%eth1,trsvcid=4420",
            StorageConnection("NVMe", LINK_LOCAL, b"", "eth1"),
            id="link-local",
        ),
        pytest.param(
            "traddr=nn-0x10000090fa945c20:pn-0x10000090fa945c20",
            StorageConnection("NVMe", b""),
            id="Fibre Channel",
        ),
    ],
)
def test_nvme_controller_has_target_and_source(
    sysfs: Path, address: str, expected: StorageConnection
) -> None:
    write(sysfs / NVME, {"nvme0/address": address, "uevent": ""})

    assert [*storage_connections()] == [expected]


def test_nfs_servers_are_read_if_the_module_is_loaded(sysfs: Path) -> None:
    lines = (
        "NV SERVER   PORT USE HOSTNAME",
        "v4 0a050009  801   1 nas",
        "v3 20010db8000000000000000000000009    0   1 nas6",
        "v4 local     801   1 here",
    )
    write(sysfs, {"servers": "\n".join(lines)})
    assert [*storage_connections()] == []

    (sysfs / "module/nfs").mkdir(parents=True)

    assert [*storage_connections()] == [
        StorageConnection("NFS", REMOTE),
        StorageConnection("NFS", bytes.fromhex("20010db8000000000000000000000009")),
    ]
    (sysfs / "servers").unlink()
    assert [*storage_connections()] == []
