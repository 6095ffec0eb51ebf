"""Network namespaces: identity, and work inside them in threads that end there.

Rules:
1. This module never forks, and a thread that entered a namespace is never used again. No such
   thread is abandoned: it may change something at any time, with descriptors that belong to others
   by then. A caller with a deadline runs in a thread of its own, which waits here: see
   attach/watchdog.py.
2. A namespace's identity is its nsfs inode; a path is only a way to it.
"""

import ctypes
import fcntl
import os
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from errno import EINVAL, ENOENT, ENOTDIR
from typing import Final, Generic, TypeVar

from dranet_nri.errors import KernelError
from dranet_nri.model import NetnsId

HOST_PATH: Final = "/proc/self/ns/net"  # of the thread-group leader, in every thread
HERE: Final = "/proc/thread-self/ns/net"  # of the calling thread
CLONE_NEWNET: Final = 0x40000000  # linux/sched.h
NS_GET_NSTYPE: Final = 0xB703  # linux/nsfs.h, _IO(0xb7, 3)

_libc: Final = ctypes.CDLL(None, use_errno=True)  # os.setns came with Python 3.12

T = TypeVar("T")


@dataclass(slots=True)
class _Outcome(Generic[T]):
    """Result of work in another thread: a value, or the error."""

    value: T | None = None
    error: BaseException | None = None


def run_inside(nsfd: int, work: Callable[[], T]) -> T:
    """Run work in a fresh thread inside the namespace, and return what it returns.

    A caller that is in the namespace already, as for the host's, needs no thread: work is called
    at once. A thread's hand-over can cost a millisecond on a busy machine.

    Args:
        nsfd: descriptor of the network namespace; may be closed as soon as this returns.
        work: what to do. /proc/sys/net and new sockets are the namespace's there.

    Raises:
        KernelError: the namespace could not be entered.
    """
    if os.fstat(nsfd).st_ino == os.stat(HERE).st_ino:  # noqa: PTH116 (a magic link)
        return work()
    entered = os.dup(nsfd)
    outcome: _Outcome[T] = _Outcome()

    def body() -> None:
        try:
            _enter(entered)
            outcome.value = work()
        except BaseException as error:  # noqa: BLE001 (raised again in the calling thread)
            outcome.error = error

    thread = threading.Thread(target=body, name="in-netns", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        os.close(entered)
        raise
    thread.join()
    if outcome.error is not None:
        raise outcome.error
    return outcome.value  # type: ignore[return-value]  # no error, so it is what work returned


def _enter(nsfd: int) -> None:
    """Move the calling thread into the namespace and close the descriptor."""
    try:
        if _libc.setns(nsfd, CLONE_NEWNET) != 0:
            code = ctypes.get_errno()
            raise KernelError(
                "enter a network namespace", code, "needs CAP_SYS_ADMIN in it and outside"
            )
    finally:
        os.close(nsfd)


def sockets_in(nsfd: int, *protocols: int) -> tuple[socket.socket, ...]:
    """Open netlink sockets that belong to the namespace, one of each protocol.

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
        None if nothing is there, or something else than a network namespace: then the runtime
        unpinned it and a plain file remains, or the path was used again.

    Raises:
        KernelError: the path cannot be opened.
    """
    fd = open_namespace(path)
    if fd is None:
        return None
    try:
        return _identity(path, fd)
    finally:
        os.close(fd)


def open_namespace(path: str) -> int | None:
    """Open the network namespace at path; None as for identify.

    The file is checked before it is opened for good, so that a fifo does not block and no
    device is touched.

    Raises:
        KernelError: the path cannot be opened.
    """
    try:
        looked = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not _on_nsfs(looked):
                return None
            fd = os.open(f"/proc/self/fd/{looked}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        finally:
            os.close(looked)
    except OSError as error:
        if error.errno in {ENOENT, ENOTDIR}:
            return None
        raise KernelError(f"open namespace {path}", error.errno or EINVAL) from error
    with suppress(OSError):
        if fcntl.ioctl(fd, NS_GET_NSTYPE) == CLONE_NEWNET:
            return fd
    os.close(fd)
    return None


def _on_nsfs(fd: int) -> bool:
    """Whether fd is on nsfs. There is one instance of it, so its device number is enough."""
    status = os.fstat(fd)
    nsfs = os.stat(HOST_PATH).st_dev  # noqa: PTH116 (a path object would resolve the magic link)
    return stat.S_ISREG(status.st_mode) and status.st_dev == nsfs


def _identity(path: str, fd: int) -> NetnsId:
    status = os.fstat(fd)
    return NetnsId(path, status.st_dev, status.st_ino)


def same_namespace(one: NetnsId, other: NetnsId) -> bool:
    """Whether both are the same namespace, however they are reached."""
    return (one.dev, one.inode) == (other.dev, other.inode)
