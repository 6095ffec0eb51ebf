"""Work inside of network namespaces, and sockets that belong to them."""

import fcntl
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from errno import EBADF, EINVAL, EPROTONOSUPPORT
from pathlib import Path

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.kernel.netns import (
    HOST_PATH,
    identify,
    run_inside,
    same_namespace,
    sockets_in,
)
from dranet_nri.kernel.session import NetlinkKernel
from dranet_nri.model import NetnsId
from tests.system.kernel.descriptors import descriptors_before, open_descriptors

NETLINK_ROUTE = 0
SIOCGSKNS = 0x894C  # linux/sockios.h: the namespace of a socket


def inode_here() -> int:
    """Return the inode of the calling thread's network namespace."""
    return os.stat("/proc/thread-self/ns/net").st_ino  # noqa: PTH116 (a magic link)


def inode_of(fd: int) -> int:
    """Return the inode of an open namespace."""
    return os.fstat(fd).st_ino


# --------------------------------------------------------------------------- work inside


def test_work_runs_inside_the_namespace_and_the_caller_stays_outside(nsfd: int) -> None:
    outside = inode_here()

    inside = run_inside(nsfd, inode_here)

    assert inside == inode_of(nsfd)
    assert inode_here() == outside


def test_work_in_the_current_namespace_uses_no_thread() -> None:
    here = os.open(HOST_PATH, os.O_RDONLY)

    thread = run_inside(here, threading.current_thread)
    os.close(here)

    assert thread is threading.current_thread()


def test_pool_thread_stays_in_its_namespace(nsfd: int) -> None:
    with ThreadPoolExecutor(max_workers=1) as pool:
        inside = pool.submit(run_inside, nsfd, inode_here).result()
        afterwards = pool.submit(inode_here).result()

    assert inside == inode_of(nsfd)
    assert afterwards == inode_here()


def test_thread_other_than_the_main_one_enters_by_itself_and_returns(nsfd: int) -> None:
    def work() -> tuple[int, int]:
        return threading.get_ident(), inode_here()

    def failing_work() -> None:
        raise KernelError("look", EINVAL, "raised inside")

    def call() -> tuple[int, int]:
        with pytest.raises(KernelError, match="raised inside"):
            run_inside(nsfd, failing_work)
        assert inode_here() == own_inode
        thread, inside = run_inside(nsfd, work)
        assert inode_here() == own_inode
        assert thread == threading.get_ident()
        return inside, len(open_descriptors())

    own_inode = inode_here()
    with ThreadPoolExecutor(max_workers=1) as pool:
        results = [pool.submit(call).result() for _ in range(2)]

    assert results[0] == results[1]
    assert results[0][0] == inode_of(nsfd)


def test_thread_that_cannot_return_ends_the_process(nsfd: int) -> None:
    program = """
import os, sys, threading
from dranet_nri.kernel import netns
enter, entries = netns._enter, []
def failing_enter(fd):
    entries.append(fd)
    if len(entries) > 1:
        raise netns.KernelError("enter a network namespace", 12)
    enter(fd)
netns._enter = failing_enter
threading.Thread(target=netns.run_inside, args=(int(sys.argv[1]), lambda: None)).start()
threading.Event().wait(60)
"""
    command = (sys.executable, "-c", program, str(nsfd))
    ended = subprocess.run(command, pass_fds=(nsfd,), capture_output=True, text=True, check=False)

    assert ended.returncode == os.EX_OSERR
    assert "its thread cannot return: enter a network namespace" in ended.stderr


def test_exception_of_the_work_is_raised_in_the_caller(nsfd: int) -> None:
    def work() -> None:
        raise KernelError("look", EINVAL, "raised inside")

    with pytest.raises(KernelError, match="raised inside"):
        run_inside(nsfd, work)


def test_caller_waits_without_a_limit(nsfd: int, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    join = threading.Thread.join

    def joined(thread: threading.Thread, timeout: float | None = None) -> None:
        if timeout is None:  # any limit is over at once here, with the work undone
            release.set()
            join(thread)

    def work() -> int:
        release.wait()
        return inode_here()

    monkeypatch.setattr(threading.Thread, "join", joined)

    try:
        assert run_inside(nsfd, work) == inode_of(nsfd)
    finally:
        release.set()


def test_descriptor_may_be_closed_while_the_work_hangs(nsfd: int) -> None:
    started, release = threading.Event(), threading.Event()
    observed: list[int] = []

    def work() -> None:
        started.set()
        release.wait()
        observed.append(inode_here())

    descriptor = os.dup(nsfd)
    caller = threading.Thread(target=run_inside, args=(descriptor, work))
    caller.start()
    started.wait()
    os.close(descriptor)
    assert caller.is_alive()  # it leaves no thread behind, however long that takes
    release.set()
    caller.join()

    assert observed == [inode_of(nsfd)]


def test_descriptor_that_is_no_network_namespace_is_refused() -> None:
    fd = os.open("/proc/self/ns/uts", os.O_RDONLY)
    before = descriptors_before()

    with pytest.raises(KernelError) as caught:
        run_inside(fd, inode_here)
    after = open_descriptors()
    os.close(fd)

    assert caught.value.code == EINVAL
    assert "CAP_SYS_ADMIN" in caught.value.detail
    assert after == before


def test_closed_descriptor_is_an_error() -> None:
    with pytest.raises(OSError, match="Bad file descriptor") as caught:
        run_inside(1_000_000, inode_here)
    assert caught.value.errno == EBADF


# --------------------------------------------------------------------------- sockets


def test_socket_belongs_to_the_namespace_and_works_outside(nsfd: int) -> None:
    (opened,) = sockets_in(nsfd, NETLINK_ROUTE)
    with opened:
        owner = fcntl.ioctl(opened, SIOCGSKNS)

    assert inode_of(owner) == inode_of(nsfd)
    os.close(owner)


def test_unsupported_netlink_protocol_is_reported(nsfd: int) -> None:
    before = descriptors_before()

    with pytest.raises(KernelError) as caught:
        sockets_in(nsfd, NETLINK_ROUTE, 31)

    assert caught.value.code == EPROTONOSUPPORT
    assert "31" in caught.value.op
    assert open_descriptors() == before


def test_descriptors_are_not_inherited_by_programs(nsfd: int) -> None:
    (opened,) = sockets_in(nsfd, NETLINK_ROUTE)
    with opened:
        assert not opened.get_inheritable()


# --------------------------------------------------------------------------- identity


def test_host_is_the_namespace_of_the_process_in_every_thread(nsfd: int) -> None:
    host = identify(HOST_PATH)
    from_inside = run_inside(nsfd, lambda: identify(HOST_PATH))

    assert host is not None
    assert from_inside == host
    assert NetlinkKernel().is_host(host)


def test_namespace_has_one_identity_on_every_path(nsfd: int, tmp_path: Path) -> None:
    link = tmp_path / "cni-1"
    link.symlink_to(f"/proc/self/fd/{nsfd}")

    direct, linked = identify(f"/proc/self/fd/{nsfd}"), identify(str(link))

    assert direct is not None
    assert linked is not None
    assert direct.inode == inode_of(nsfd)
    assert same_namespace(direct, linked)


def fifo(directory: Path) -> Path:
    """Make a fifo without a writer: a blocking open would never return."""
    path = directory / "fifo"
    os.mkfifo(path)
    return path


def regular(directory: Path) -> Path:
    """Make the plain file that remains of an unpinned namespace."""
    path = directory / "file"
    path.touch()
    return path


def listening(directory: Path) -> Path:
    """Make a socket."""
    path = directory / "socket"
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))
    return path


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(lambda d: d / "missing", id="missing"),
        pytest.param(lambda d: d / "missing" / "below", id="missing directory"),
        pytest.param(lambda d: regular(d) / "below", id="below a file"),
        pytest.param(fifo, id="fifo"),
        pytest.param(regular, id="regular file"),
        pytest.param(listening, id="socket"),
        pytest.param(lambda d: d, id="directory"),
        pytest.param(lambda _: Path("/dev/null"), id="device"),
        pytest.param(lambda _: Path("/proc/self/ns/uts"), id="uts namespace"),
        pytest.param(lambda _: Path("/proc/self/ns/mnt"), id="mount namespace"),
        pytest.param(lambda _: Path("/proc/self/ns/user"), id="user namespace"),
        pytest.param(lambda _: Path("/proc/self/status"), id="other procfs file"),
    ],
)
def test_path_that_is_no_network_namespace_has_no_identity(
    path: Callable[[Path], Path], tmp_path: Path
) -> None:
    made = str(path(tmp_path))
    before = descriptors_before()

    assert identify(made) is None
    assert open_descriptors() == before


def test_unreadable_path_is_an_error(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)

    with pytest.raises(KernelError, match=str(loop)):
        identify(str(loop))


# --------------------------------------------------------------------------- no leaks, no forks


def test_two_hundred_sessions_leave_no_descriptor(nsfd: int, no_fork: None) -> None:
    before = descriptors_before()
    kernel = NetlinkKernel(host_path=f"/proc/self/fd/{nsfd}")
    netns = kernel.identify(f"/proc/self/fd/{nsfd}")
    assert netns is not None

    def cycle(kernel: NetlinkKernel, netns: NetnsId) -> None:
        assert kernel.hold(netns)
        with closing(kernel.session(netns)) as session:
            session.default_sysctls()
        kernel.release(netns)

    for _ in range(200):
        cycle(kernel, netns)
    del kernel  # with what stays open between sessions

    assert open_descriptors() == before


def test_host_namespace_stays_open_between_sessions(nsfd: int) -> None:
    """Else the kernel would create and free an inode for each session, which delays a move."""
    copy = os.dup(nsfd)
    kernel = NetlinkKernel(host_path=f"/proc/self/fd/{copy}")
    os.close(copy)

    with closing(kernel.session(None)) as session:
        assert session.default_sysctls()


def test_session_that_cannot_open_leaves_no_descriptor(nsfd: int, no_fork: None) -> None:
    kernel = NetlinkKernel(host_path=f"/proc/self/fd/{nsfd}")
    before = descriptors_before()

    with pytest.raises(KernelError, match="not referenced"):
        kernel.session(NetnsId("/run/netns/none", 4, 1))

    assert open_descriptors() == before


def test_kernel_without_a_host_namespace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="no network namespace there"):
        NetlinkKernel(host_path=str(tmp_path))


def test_fork_guard_refuses_a_fork(no_fork: None) -> None:
    with pytest.raises(AssertionError, match=r"os\.fork"):
        os.fork()
