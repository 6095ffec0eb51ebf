"""Network namespaces: identity, and work inside them.

Rules:
1. This module does not fork. A thread enters a namespace and returns to its own. A thread that
   cannot return ends the process: its next work would be in the wrong namespace.
2. The main thread never leaves its namespace, which is that of /proc/self for all threads. It
   waits for a second thread. A caller with a deadline runs in its own thread
   (attach/execution/watchdog.py).
3. A namespace's identity is its nsfs inode, not its path.
"""

import ctypes
import fcntl
import os
import socket
import stat
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from errno import EINVAL, ENOENT, ENOTDIR
from functools import cache
from os import EX_OSERR
from typing import Final, TypeVar

from dranet_nri.errors import KernelError
from dranet_nri.model import NetnsId

HOST_PATH: Final = "/proc/self/ns/net"  # of the thread-group leader, in every thread
OWN_NETNS: Final = "/proc/thread-self/ns/net"  # of the calling thread
CLONE_NEWNET: Final = 0x40000000  # linux/sched.h
NS_GET_NSTYPE: Final = 0xB703  # linux/nsfs.h, _IO(0xb7, 3)

_libc: Final = ctypes.CDLL(None, use_errno=True)  # os.setns needs Python 3.12

T = TypeVar("T")


def run_inside(nsfd: int, work: Callable[[], T]) -> T:
    """Run work inside the namespace, and return its result.

    The calling thread enters it, because a switch to another thread can take a millisecond on a
    busy machine; only the main thread uses another one.

    Args:
        nsfd: descriptor of the network namespace; may be closed after the return.
        work: the job. /proc/sys/net and new sockets are those of the namespace.

    Raises:
        KernelError: the namespace could not be entered.
    """
    if os.fstat(nsfd).st_ino == os.stat(OWN_NETNS).st_ino:  # noqa: PTH116 (a magic link)
        return work()
    if threading.current_thread() is not threading.main_thread():
        return _inside(nsfd, work)
    outcome: Future[T] = Future()

    def body() -> None:
        try:
            outcome.set_result(_inside(nsfd, work))
        except BaseException as error:  # noqa: BLE001 (raised again in the calling thread)
            outcome.set_exception(error)

    thread = threading.Thread(target=body, name="in-netns", daemon=True)
    thread.start()
    thread.join()
    return outcome.result()


def _inside(nsfd: int, work: Callable[[], T]) -> T:
    """Run work in the calling thread inside the namespace, and return to its own."""
    own = os.open(OWN_NETNS, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _enter(nsfd)
        try:
            return work()
        finally:
            _return_to(own)
    finally:
        os.close(own)


def _return_to(nsfd: int) -> None:
    """Enter the thread's own namespace again; see rule 1."""
    try:
        _enter(nsfd)
    except KernelError as error:
        os.write(2, f"the process ends, its thread cannot return: {error}\n".encode())
        os._exit(EX_OSERR)


def _enter(nsfd: int) -> None:
    """Move the calling thread into the namespace."""
    if _libc.setns(nsfd, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise KernelError(
            "enter a network namespace", code, "needs CAP_SYS_ADMIN in it and outside"
        )


def sockets_in(nsfd: int, *protocols: int) -> tuple[socket.socket, ...]:
    """Open netlink sockets in the namespace, one per protocol.

    Args:
        nsfd: descriptor of the network namespace.
        protocols: NETLINK_* (0 rtnetlink, 16 generic; linux/netlink.h).

    Raises:
        KernelError: the namespace cannot be entered, or the kernel lacks a protocol.
    """
    opened: list[socket.socket] = []

    def work() -> None:
        kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
        opened.extend(socket.socket(socket.AF_NETLINK, kind, protocol) for protocol in protocols)

    try:
        run_inside(nsfd, work)
    except BaseException as error:
        for opened_socket in opened:
            opened_socket.close()
        if isinstance(error, OSError):
            what = f"open netlink sockets {protocols}"
            raise KernelError(what, error.errno or EINVAL) from error
        raise
    return tuple(opened)


def identify(path: str) -> NetnsId | None:
    """Return the identity of the network namespace at path.

    Returns:
        None if the path does not exist or is not a network namespace: after the runtime's unmount
        a plain file may remain, or the path may be reused.

    Raises:
        KernelError: the path cannot be opened.
    """
    fd = open_namespace(path)
    if fd is None:
        return None
    try:
        return identity_of(path, fd)
    finally:
        os.close(fd)


def open_namespace(path: str) -> int | None:
    """Open the network namespace at path; None as for identify.

    The file is checked with O_PATH before, so that a fifo does not block and no device is opened.

    Raises:
        KernelError: the path cannot be opened.
    """
    try:
        path_fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not _on_nsfs(path_fd):
                return None
            fd = os.open(f"/proc/self/fd/{path_fd}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        finally:
            os.close(path_fd)
    except OSError as error:
        if error.errno in {ENOENT, ENOTDIR}:
            return None
        raise KernelError(f"open namespace {path}", error.errno or EINVAL) from error
    with suppress(OSError):
        if fcntl.ioctl(fd, NS_GET_NSTYPE) == CLONE_NEWNET:
            return fd
    os.close(fd)
    return None


def open_same(netns: NetnsId) -> int | None:
    """Open the namespace at its path, None if the path now has another one.

    Raises:
        KernelError: the path cannot be opened.
    """
    fd = open_namespace(netns.path)
    if fd is None:
        return None
    status = os.fstat(fd)
    if (status.st_dev, status.st_ino) == (netns.dev, netns.inode):
        return fd
    os.close(fd)
    return None


def _on_nsfs(fd: int) -> bool:
    """Whether fd is on nsfs, by its device number."""
    status = os.fstat(fd)
    return stat.S_ISREG(status.st_mode) and status.st_dev == _nsfs_device()


@cache
def _nsfs_device() -> int:
    """Return the device number of nsfs, which has one instance."""
    return os.stat(HOST_PATH).st_dev  # noqa: PTH116 (a path object would resolve the magic link)


def identity_of(path: str, fd: int) -> NetnsId:
    """Return the identity of the open namespace of that path."""
    status = os.fstat(fd)
    return NetnsId(path, status.st_dev, status.st_ino)


def same_namespace(one: NetnsId, other: NetnsId) -> bool:
    """Whether both are the same namespace, by any path."""
    return (one.dev, one.inode) == (other.dev, other.inode)
