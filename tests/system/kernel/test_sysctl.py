"""Sysctls of links, and the defaults to which a move resets them."""

import os
import struct
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from errno import EINVAL, ENOENT
from pathlib import Path
from socket import AF_INET6
from threading import Barrier

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.kernel.netns import run_inside
from dranet_nri.kernel.settings.sysctl import (
    SysctlDefaults,
    in_no_array,
    read_from_files,
    reset_by_move,
    set_by_claims,
    write_value,
)
from dranet_nri.kernel.settings.token import token_of
from dranet_nri.linux.netlink.codec import attribute
from dranet_nri.model import Sysctl
from tests.system.kernel.descriptors import descriptors_before, open_descriptors
from tests.system.kernel.namespaces import open_netns


def conf(root: Path, family: str, name: str, **values: str) -> Path:
    """Make net/<family>/conf/<name> with values."""
    directory = root / "sys" / "net" / family / "conf" / name
    directory.mkdir(parents=True)
    for key, value in values.items():
        (directory / key).write_text(f"{value}\n")
    return directory


@pytest.fixture
def here() -> Iterator[int]:
    """Return a descriptor of the namespace that we are in."""
    fd = os.open("/proc/self/ns/net", os.O_RDONLY)
    yield fd
    os.close(fd)


def test_only_defaults_reset_by_a_move_are_read(tmp_path: Path, here: int) -> None:
    conf(tmp_path, "ipv4", "default", arp_ignore="1", rp_filter="2", mc_forwarding="1")
    conf(tmp_path, "ipv6", "default", accept_ra="0")

    assert SysctlDefaults(str(tmp_path)).read(here) == {
        ("ipv4", "arp_ignore"): "1",
        ("ipv4", "rp_filter"): "2",
        ("ipv6", "accept_ra"): "0",
    }


def test_defaults_are_read_again_and_ipv6_may_appear_later(tmp_path: Path, here: int) -> None:
    directory = conf(tmp_path, "ipv4", "default", arp_ignore="1")
    defaults = SysctlDefaults(str(tmp_path))

    assert defaults.read(here) == {("ipv4", "arp_ignore"): "1"}
    (directory / "arp_ignore").write_text("2\n")
    conf(tmp_path, "ipv6", "default", accept_ra="0")

    assert defaults.read(here) == {("ipv4", "arp_ignore"): "2", ("ipv6", "accept_ra"): "0"}


def test_default_that_cannot_be_opened_is_an_error(tmp_path: Path, here: int) -> None:
    directory = conf(tmp_path, "ipv4", "default", accept_local="0")
    (directory / "arp_ignore").symlink_to("arp_ignore")  # ELOOP
    before = descriptors_before()

    with pytest.raises(KernelError, match="arp_ignore"):
        SysctlDefaults(str(tmp_path)).read(here)

    assert open_descriptors() == before


def test_default_that_cannot_be_read_is_an_error(tmp_path: Path, here: int) -> None:
    directory = conf(tmp_path, "ipv4", "default", accept_local="0")
    (directory / "arp_ignore").mkdir()  # EISDIR

    with pytest.raises(KernelError, match="ipv4 arp_ignore"):
        SysctlDefaults(str(tmp_path)).read(here)


def test_concurrent_threads_open_the_defaults_once(tmp_path: Path, here: int) -> None:
    conf(tmp_path, "ipv4", "default", arp_ignore="1")
    before = descriptors_before()
    defaults, together = SysctlDefaults(str(tmp_path)), Barrier(8)

    with ThreadPoolExecutor(8, initializer=together.wait) as pool:
        read_by = [*pool.map(defaults.read, [here] * 8)]

    assert read_by == [{("ipv4", "arp_ignore"): "1"}] * 8
    assert len(open_descriptors() - before) == 1
    del defaults
    assert open_descriptors() == before


def test_sysctls_of_a_link_are_decoded_with_their_families() -> None:
    values = struct.pack("=18i", 1, *range(100, 116), -2)
    spec = attribute(2, attribute(1, values))  # AF_INET, IFLA_INET_CONF

    defaults = {sysctl.key: sysctl.value for sysctl in reset_by_move(spec)}

    assert {sysctl.family for sysctl in reset_by_move(spec)} == {"ipv4"}
    assert (defaults["forwarding"], defaults["proxy_arp"], defaults["arp_announce"]) == (
        "1",
        "101",
        "-2",
    )
    assert "arp_ignore" not in defaults
    assert reset_by_move(b"") == ()


def test_ipv6_token_of_a_link_is_decoded() -> None:
    token = bytes(15) + b"\5"
    spec = attribute(AF_INET6, attribute(7, token))  # IFLA_INET6_TOKEN

    assert token_of(spec) == (Sysctl("ipv6", "token", "::5"),)
    assert token_of(attribute(AF_INET6, attribute(7, bytes(16)))) == token_of(b"") == ()


def test_claims_can_set_only_some_sysctls() -> None:
    few = (Sysctl("ipv4", "arp_announce", "2"), Sysctl("ipv4", "forwarding", "1"))

    assert set_by_claims((*few, Sysctl("ipv6", "use_tempaddr", "1"))) == few


def test_sysctl_value_is_written(tmp_path: Path) -> None:
    directory = conf(tmp_path, "ipv4", "eth1", arp_ignore="0")

    write_value(str(tmp_path), "set", "eth1", Sysctl("ipv4", "arp_ignore", "1"))

    assert (directory / "arp_ignore").read_text() == "1"


def test_missing_sysctl_is_refused_with_the_remedy(tmp_path: Path) -> None:
    sysctl = Sysctl("ipv6", "forwarding", "1")

    with pytest.raises(KernelError, match="kernel with IPv6 on") as caught:
        write_value(str(tmp_path), "set", "eth1", sysctl)

    assert caught.value.code == ENOENT


def test_sysctl_value_rejected_by_the_kernel_is_an_error(tmp_path: Path) -> None:
    directory = conf(tmp_path, "ipv4", "eth1")
    (directory / "arp_ignore").mkdir()

    with pytest.raises(KernelError, match="set: EISDIR"):
        write_value(str(tmp_path), "set", "eth1", Sysctl("ipv4", "arp_ignore", "1"))


@pytest.mark.parametrize(
    ("name", "sysctl"),
    [
        ("..", Sysctl("ipv4", "forwarding", "1")),
        (".", Sysctl("ipv4", "forwarding", "1")),
        ("", Sysctl("ipv4", "forwarding", "1")),
        ("eth1", Sysctl("../../kernel", "core_pattern", "x")),
        ("eth1", Sysctl("ipv4", "../../../kernel/core_pattern", "x")),
        ("a/b", Sysctl("ipv4", "forwarding", "1")),
    ],
)
def test_sysctl_name_cannot_leave_its_directory(tmp_path: Path, name: str, sysctl: Sysctl) -> None:
    with pytest.raises(KernelError, match="not the name of a sysctl") as caught:
        write_value(str(tmp_path), "set", name, sysctl)

    assert caught.value.code == EINVAL


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """Return a directory with /proc/sys/net at sys/net, as the DaemonSet has it at /host/proc."""
    net = tmp_path / "sys" / "net"
    net.mkdir(parents=True)
    subprocess.run(("mount", "--bind", "/proc/sys/net", net), check=True)
    yield tmp_path
    subprocess.run(("umount", net), check=True)


def test_mounted_sysctls_of_the_host_show_the_namespace_of_the_thread(mounted: Path) -> None:
    desired = Sysctl("ipv4", "arp_ignore", "7")
    path = Path("/proc/sys/net/ipv4/conf/lo/arp_ignore")
    on_host = path.read_text()

    with open_netns() as pod:
        run_inside(pod, lambda: write_value(str(mounted), "set", "lo", desired))
        in_pod = run_inside(pod, path.read_text)

    assert (in_pod, path.read_text()) == ("7\n", on_host)


def test_neighbour_and_mpls_sysctls_are_in_their_own_directories(tmp_path: Path) -> None:
    net = tmp_path / "sys" / "net"
    values = {
        "ipv6/conf/eth1/stable_secret": "2001:db8::7",
        "ipv4/neigh/eth1/locktime": "100",
        "ipv6/conf/eth1/regen_min_advance": "2",
        "mpls/conf/eth1/input": "1",
    }
    for name, value in values.items():
        (net / name).parent.mkdir(parents=True, exist_ok=True)
        (net / name).write_text(f"{value}\n")

    found = read_from_files(str(tmp_path), "eth1", in_no_array(None, secret=True))

    assert [f"{sysctl.family} {sysctl.key} {sysctl.value}" for sysctl in found] == [
        "ipv6 stable_secret 2001:db8::7",
        "ipv4 locktime 100",
        "ipv6 regen_min_advance 2",
        "mpls input 1",
    ]
    plain = in_no_array(None, secret=False)
    assert read_from_files(str(tmp_path), "eth1", plain) == found[1:]
    assert in_no_array(found[1:3], secret=True) == tuple(
        (one.family, one.key) for one in found[1:3]
    )
    write_value(str(tmp_path), "set", "eth1", Sysctl("ipv4", "locktime", "99"))
    assert (net / "ipv4/neigh/eth1/locktime").read_text() == "99"


def test_sysctls_of_an_absent_family_are_not_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed lookup in procfs delays the move that follows."""
    (tmp_path / "sys" / "net" / "ipv4").mkdir(parents=True)
    paths: list[str] = []
    monkeypatch.setattr("dranet_nri.kernel.settings.sysctl._read", paths.append)

    read_from_files(str(tmp_path), "eth1", in_no_array(None, secret=True))

    assert {Path(path).relative_to(tmp_path).parts[2] for path in paths} == {"ipv4"}


def test_neighbour_defaults_are_those_of_the_loopback_if_missing(tmp_path: Path, here: int) -> None:
    conf(tmp_path, "ipv4", "default", forwarding="0")
    neighbours = tmp_path / "sys" / "net" / "ipv4" / "neigh"
    (neighbours / "lo").mkdir(parents=True)
    (neighbours / "lo" / "locktime").write_text("100\n")

    few = {("ipv4", "forwarding"): "0", ("ipv4", "locktime"): "100"}
    assert SysctlDefaults(str(tmp_path)).read(here) == few

    (neighbours / "default").mkdir()
    (neighbours / "default" / "locktime").write_text("90\n")
    few["ipv4", "locktime"] = "90"
    assert SysctlDefaults(str(tmp_path)).read(here) == few
