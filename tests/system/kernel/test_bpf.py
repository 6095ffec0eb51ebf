"""Programs that run by TCX, of a real kernel."""

import ctypes
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.facts.scan import read_host
from dranet_nri.kernel.netns import run_inside
from dranet_nri.linux.bpf import LoadedPrograms, attach, detach, programs_on, tcx_names
from dranet_nri.model import TcxProgram, TcxSide
from tests.capability import lacking
from tests.system.kernel import bpf
from tests.system.kernel.namespaces import open_netns

libc = ctypes.CDLL(None, use_errno=True)

T = TypeVar("T")


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


def test_links_without_programs_have_none(netns: int) -> None:
    assert run_inside(netns, tcx_names) == {}


def test_programs_are_listed_by_name_or_by_number(
    netns: int,
) -> None:
    def attach() -> None:
        bpf.attach_tcx("left", "count")
        bpf.attach_tcx("left", "count", bpf.TCX_EGRESS)
        bpf.attach_tcx("left", "a_name_of_15_by", bpf.TCX_EGRESS)
        bpf.attach_tcx("right")

    run_inside(netns, attach)
    found = run_inside(netns, tcx_names)

    assert found.keys() == {2, 3}
    assert found[2] == ("a_name_of_15_by", "count")
    assert len(found[3]) == 1
    assert found[3][0].isdecimal()


def test_program_is_detached_from_one_side_and_attached_unchanged(netns: int) -> None:
    def scenario() -> None:
        bpf.attach_tcx("left", "count")
        bpf.attach_tcx("left", "drop")
        bpf.attach_tcx("left", "send", bpf.TCX_EGRESS)
        count, drop, send = programs_on(2)
        assert (count.side, drop.side, send.side) == ("ingress", "ingress", "egress")
        assert tcx_names() == {2: ("count", "drop", "send")}

        for _ in range(2):
            detach("take it off", 2, drop)
            assert tcx_names() == {2: ("count", "send")}
        detach("take it off", 2, TcxProgram(TcxSide.EGRESS, count.id))
        assert programs_on(2) == (count, send)
        bpf.attach_tcx("right")
        assert programs_on(3)

    run_inside(netns, scenario)


def test_program_of_a_bpf_link_is_detached_with_the_link_and_kept_by_its_owner(
    netns: int,
) -> None:
    def scenario() -> None:
        held = bpf.hold_tcx("left", "held")
        try:
            assert tcx_names() == {2: ("held",)}
            (program,) = programs_on(2)
            assert program.link

            for _ in range(2):
                detach("take it off", 2, program)
                assert programs_on(2) == ()

            attach("put it back", 2, program)
            assert programs_on(2) == (replace(program, link=0),)
            detach("take it off", 2, replace(program, link=0))
        finally:
            os.close(held)
        assert tcx_names() == {}

    run_inside(netns, scenario)


def test_program_that_only_the_link_references_is_lost_unless_it_is_held(netns: int) -> None:
    loaded = LoadedPrograms()

    def scenario(*, hold: bool) -> None:
        bpf.attach_tcx("left", "count")
        (program,) = programs_on(2)
        if hold:
            loaded.hold("keep it", program)
            loaded.hold("keep it", program)
        detach("take it off", 2, program)
        if hold:
            attach("put it back", 2, program)
            attach("put it back", 2, program)
            loaded.release(program)
            loaded.release(program)
            assert programs_on(2) == (program,)
            detach("take it off", 2, program)
        for _ in range(50):  # the kernel frees a program after a grace period
            if not tcx_names() and not is_loaded(program):
                break
            time.sleep(0.1)
        with pytest.raises(KernelError, match="ENOENT"):
            attach("put it back", 2, program)
        loaded.hold("keep it", program)

    run_inside(netns, lambda: scenario(hold=False))
    run_inside(netns, lambda: scenario(hold=True))


def is_loaded(program: TcxProgram) -> bool:
    try:
        attach("look", 2, program)
    except KernelError:
        return False
    detach("look", 2, program)
    return True


def test_move_deletes_the_qdisc_with_its_tc_filters(netns: int) -> None:
    if not shutil.which("tc"):
        lacking("the tc command", "install iproute2")
    show = ["tc", "qdisc", "show", "dev", "left"]

    def scenario(there: int) -> None:
        run("tc qdisc add dev left clsact")
        assert b"clsact" in subprocess.check_output(show)
        run(f"ip link set left netns /proc/{os.getpid()}/fd/{there}")

    with open_netns() as there:
        run_inside(netns, lambda: scenario(there))
        assert b"clsact" not in run_inside(there, lambda: subprocess.check_output(show))


def test_missing_link_is_reported(netns: int) -> None:
    with pytest.raises(KernelError) as caught:
        run_inside(netns, lambda: programs_on(4711))

    assert caught.value.already_gone


def test_programs_are_those_of_the_namespace_of_the_thread(netns: int) -> None:
    run_inside(netns, lambda: bpf.attach_tcx("left", "count"))

    with open_netns() as other:
        assert run_inside(other, tcx_names) == {}


def test_query_of_programs_leaves_no_open_descriptor(netns: int) -> None:
    run_inside(netns, lambda: bpf.attach_tcx("left", "count"))
    before = sum(1 for _ in Path("/proc/self/fd").iterdir())

    run_inside(netns, tcx_names)

    assert sum(1 for _ in Path("/proc/self/fd").iterdir()) == before


def test_query_without_privilege_is_refused(netns: int) -> None:
    def query() -> None:
        with pytest.raises(KernelError, match=r"query the TCX programs of link \d+: EPERM"):
            tcx_names()

    run_inside(netns, lambda: without_capabilities(query))


def test_inventory_has_programs_with_privilege_and_none_without(netns: int, tmp_path: Path) -> None:
    def read() -> dict[str, tuple[str, ...]]:
        return {netdev.link.name: netdev.tcx_programs for netdev in read_host(tmp_path).netdevs}

    run_inside(netns, lambda: bpf.attach_tcx("left", "count"))

    assert run_inside(netns, read) == {"lo": (), "left": ("count",), "right": ()}
    without = run_inside(netns, lambda: without_capabilities(read))
    assert without == {"lo": (), "left": (), "right": ()}


def without_capabilities(work: Callable[[], T]) -> T:
    """Return the result of work in a thread of its own, in the same namespace."""
    with ThreadPoolExecutor(1, initializer=drop_capabilities) as pool:
        return pool.submit(work).result()


def drop_capabilities() -> None:
    """Take every capability from this thread, which is not to be used for anything else."""
    version_3 = struct.pack("=II", 0x20080522, 0)
    if libc.capset(version_3, bytes(24)):
        raise OSError(ctypes.get_errno(), "capset")
