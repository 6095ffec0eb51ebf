"""Programs that run by TCX, of a real kernel."""

import ctypes
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.facts.bpf import tcx_programs
from dranet_nri.facts.scan import read_host
from dranet_nri.kernel.netns import run_inside
from tests.capability import lacking
from tests.kernel import bpf
from tests.kernel.namespaces import open_netns

libc = ctypes.CDLL(None, use_errno=True)


@pytest.fixture
def netns() -> Iterator[int]:
    """Return a namespace with the links 2, left, and 3, right, which are one wire."""
    if not shutil.which("ip"):
        lacking("the ip command", "install iproute2")
    with open_netns() as nsfd:
        run_inside(nsfd, lambda: run("ip link add left index 2 type veth peer right index 3"))
        yield nsfd


def run(command: str) -> None:
    subprocess.run(command.split(), check=True)


def test_there_are_none_on_links_without_programs(netns: int) -> None:
    assert run_inside(netns, tcx_programs) == {}


def test_programs_of_both_sides_are_told_by_name_and_one_without_a_name_by_number(
    netns: int,
) -> None:
    def attach() -> None:
        bpf.attach_tcx("left", "count")
        bpf.attach_tcx("left", "count", bpf.TCX_EGRESS)
        bpf.attach_tcx("left", "a_name_of_15_by", bpf.TCX_EGRESS)
        bpf.attach_tcx("right")

    run_inside(netns, attach)
    found = run_inside(netns, tcx_programs)

    assert found.keys() == {2, 3}
    assert found[2] == ("a_name_of_15_by", "count")
    assert len(found[3]) == 1
    assert found[3][0].isdecimal()


def test_they_are_of_the_threads_namespace(netns: int) -> None:
    run_inside(netns, lambda: bpf.attach_tcx("left", "count"))

    with open_netns() as other:
        assert run_inside(other, tcx_programs) == {}


def test_no_descriptor_is_left_open(netns: int) -> None:
    run_inside(netns, lambda: bpf.attach_tcx("left", "count"))
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())

    run_inside(netns, tcx_programs)

    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before


def test_who_may_not_ask_is_told_so(netns: int) -> None:
    def ask() -> None:
        drop_capabilities()
        with pytest.raises(KernelError, match=r"ask for the TCX programs of link \d+: EPERM"):
            tcx_programs()

    run_inside(netns, ask)


def test_the_inventory_has_programs_where_it_may_ask_and_none_where_it_may_not(
    netns: int, tmp_path: Path
) -> None:
    def read() -> dict[str, tuple[str, ...]]:
        return {each.link.name: each.tcx_programs for each in read_host(tmp_path).netdevs}

    def read_without_power() -> dict[str, tuple[str, ...]]:
        drop_capabilities()
        return read()

    run_inside(netns, lambda: bpf.attach_tcx("left", "count"))

    assert run_inside(netns, read) == {"lo": (), "left": ("count",), "right": ()}
    assert run_inside(netns, read_without_power) == {"lo": (), "left": (), "right": ()}


def drop_capabilities() -> None:
    """Take every capability from this thread, which is not to be used for anything else."""
    version_3 = struct.pack("=II", 0x20080522, 0)
    if libc.capset(version_3, bytes(24)):
        raise OSError(ctypes.get_errno(), "capset")
