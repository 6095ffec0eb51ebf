"""Netlink protocols that the kernel has loaded, as one network namespace lists them.

Rules:
1. The file stays open. Its close would free an inode and a directory entry by RCU, for which the
   move of a device waits; see DeferredFileSystem.
2. A protocol that was loaded once counts as loaded. The list can lack one while other processes
   open sockets, so its absence is never remembered.
"""

import os
import re
from pathlib import Path
from typing import Final
from weakref import finalize

# Sockets of the namespace: address, protocol, port (0: the kernel's), … (netlink_native_seq_show)
NETLINK_SOCKETS: Final = Path("/proc/thread-self/net/netlink")
_READ_LEN: Final = 64 << 10
_OF_KERNEL: Final = re.compile(rb"^\S+ +(\d+) +0 ", re.MULTILINE)


class LoadedProtocols:
    """The list of one namespace. Thread-safe."""

    def __init__(self) -> None:
        """Open the list of the calling thread's namespace; without procfs it is empty."""
        try:
            self._file: int | None = os.open(NETLINK_SOCKETS, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = None
        else:
            finalize(self, os.close, self._file)
        self._loaded: set[bytes] = set()

    def has(self, protocol: int) -> bool:
        """Whether the kernel has a socket of the protocol (NETLINK_*, linux/netlink.h)."""
        wanted = b"%d" % protocol
        if wanted not in self._loaded:
            self._loaded.update(_OF_KERNEL.findall(self._text()))
        return wanted in self._loaded

    def _text(self) -> bytes:
        if self._file is None:
            return b""
        text = b""
        try:
            while piece := os.pread(self._file, _READ_LEN, len(text)):
                text += piece
        except OSError:
            return b""
        return text
