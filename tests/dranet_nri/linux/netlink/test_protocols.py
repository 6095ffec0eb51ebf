"""Protocols of netlink that the kernel lists."""

from pathlib import Path

import pytest

from dranet_nri.linux.netlink import protocols
from dranet_nri.linux.netlink.protocols import LoadedProtocols

pytestmark = pytest.mark.process

TITLES = (
    "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n"
)
LINE = "0000000000000000 {} 00000000 0        0        0     2        0        7\n"


def loaded(monkeypatch: pytest.MonkeyPatch, folder: Path, *sockets: str) -> LoadedProtocols:
    """Return the protocols of a kernel with these sockets: protocol and port."""
    file = folder / "netlink"
    file.write_text(TITLES + "".join(LINE.format(one) for one in sockets))
    monkeypatch.setattr(protocols, "NETLINK_SOCKETS", file)
    return LoadedProtocols()


def test_protocol_with_a_socket_of_the_kernel_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    many = ["0   4711      "] * 1000
    listed = loaded(monkeypatch, tmp_path, *many, "6   0         ", "16  0         ")

    assert listed.has(6)
    assert listed.has(16)
    assert not listed.has(1)


def test_socket_of_a_process_is_not_the_kernels(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listed = loaded(monkeypatch, tmp_path, "6   4711      ", "0   6         ", "60  0         ")

    assert not listed.has(6)


def test_protocol_is_looked_for_until_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    listed = loaded(monkeypatch, tmp_path, "0   0         ")
    assert listed.has(0)
    assert not listed.has(6)

    with (tmp_path / "netlink").open("a") as file:
        file.write(LINE.format("6   0         "))
    assert listed.has(6)

    (tmp_path / "netlink").write_text(TITLES)
    assert listed.has(6)


def test_kernel_without_a_list_has_no_protocols(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(protocols, "NETLINK_SOCKETS", tmp_path / "absent")

    assert not LoadedProtocols().has(0)


def test_list_that_cannot_be_read_is_empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(protocols, "NETLINK_SOCKETS", tmp_path)  # EISDIR

    assert not LoadedProtocols().has(0)


def test_real_list_has_the_protocol_of_links() -> None:
    listed = LoadedProtocols()

    assert listed.has(0)
    assert listed.has(0)  # from its start again
    assert not listed.has(31)
