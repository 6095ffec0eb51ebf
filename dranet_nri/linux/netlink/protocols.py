"""Netlink protocols that the kernel has loaded, as one network namespace lists them.

The file stays open, because a lookup in procfs delays the move of a device; see DeferredFileSystem.
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

    def has(self, protocol: int) -> bool:
        """Whether the kernel has a socket of the protocol (NETLINK_*, linux/netlink.h)."""
        return b"%d" % protocol in _OF_KERNEL.findall(self._text())

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
