"""Named network namespaces, without a process for each: emulated, ip takes 50 ms to start."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path
from typing import Final

from dranet_nri.kernel.netns import run_inside
from tests.system.kernel.namespaces import new_netns

ROOT: Final = Path("/run/netns")
_MS_BIND: Final = 4096  # linux/mount.h
_MNT_DETACH: Final = 2  # linux/fs.h
_SIOCSIFFLAGS: Final = 0x8914  # linux/sockios.h
_IFF_UP: Final = 1  # linux/if.h

_libc: Final = ctypes.CDLL(None, use_errno=True)


def add(name: str) -> None:
    """Make a namespace with its loopback up, as `ip netns add` and a runtime do."""
    ROOT.mkdir(exist_ok=True)
    (ROOT / name).touch()
    fd = new_netns()
    try:
        run_inside(fd, _set_loopback_up)
        _check(
            _libc.mount(b"/proc/self/fd/%d" % fd, os.fsencode(ROOT / name), None, _MS_BIND, None)
        )
    finally:
        os.close(fd)


def delete(name: str) -> None:
    """Take its name from a namespace, as `ip netns del` does; the kernel empties it soon."""
    _check(_libc.umount2(os.fsencode(ROOT / name), _MNT_DETACH))
    (ROOT / name).unlink()


def _set_loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh", b"lo", _IFF_UP))


def _check(status: int) -> None:
    if status != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
