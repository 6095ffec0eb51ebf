"""RCU grace periods, shortened while links move or are deleted.

Both wait for such a period (rcu_barrier in __dev_change_net_namespace and netdev_run_todo,
net/core/dev.c), and for one that runs already. In each, the kernel waits some jiffies before it
looks for idle CPUs (rcu_gp_fqs_loop, kernel/rcu/tree.c). If the parameter is 0 at its start, the
kernel looks at once.

Rules:
1. The parameter has its value again after the last of several moves at the same time.
2. The value is in a file on tmpfs before the first change, so that the next start of the plugin
   restores it after a crash.
3. A parameter that is 0, or cannot be written, is not changed.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from weakref import finalize

from dranet_nri.component.files import FileSystem, read_file, save
from dranet_nri.errors import StateCorruptError

# In jiffies; Documentation/admin-guide/kernel-parameters.txt, rcutree.jiffies_till_first_fqs.
PARAMETER: Final = "jiffies_till_first_fqs"

_AT_ONCE: Final = b"0"
_MAX_BYTES: Final = 32


class GracePeriods:
    """The parameter of the running kernel. Thread-safe."""

    def __init__(self, directory: Path, stored: Path, fs: FileSystem) -> None:
        """Open the parameter, and restore it after a crash.

        Args:
            directory: directory of RCU's parameters, /sys/module/rcutree/parameters.
            stored: the file with its value, on tmpfs.
            fs: file operations.

        Raises:
            OSError: the parameter cannot be written, or its value cannot be stored.
        """
        self._descriptor = os.open(directory / PARAMETER, os.O_RDWR | os.O_CLOEXEC)
        finalize(self, os.close, self._descriptor)
        self._path = stored
        self._fs = fs
        self._lock = threading.Lock()
        self._moves = 0
        self._previous = b""  # value before the running moves, b"" if it is not changed
        self._stored = self._read_stored()
        if self._read() == _AT_ONCE and self._stored:
            self._write(self._stored)
        self._store(self._read())

    @contextmanager
    def shortened(self) -> Iterator[None]:
        """Shorten grace periods meanwhile. An error does not end the move, which takes longer."""
        with self._lock:
            self._moves += 1
            if self._moves == 1:
                with suppress(OSError):
                    self._shorten()
        try:
            yield
        finally:
            with self._lock:
                self._moves -= 1
                if not self._moves and self._previous:
                    with suppress(OSError):
                        self._write(self._previous)
                    self._previous = b""

    def _shorten(self) -> None:
        value = self._read()
        if value != _AT_ONCE:
            self._store(value)
            self._write(_AT_ONCE)
            self._previous = value

    def _store(self, value: bytes) -> None:
        """Store the value, unless it is stored already, or is 0."""
        if value not in {self._stored, _AT_ONCE}:
            save(self._fs, self._path, value, durable=False)
            self._stored = value

    def _read_stored(self) -> bytes:
        """Return the stored value, b"" without one."""
        with suppress(FileNotFoundError, StateCorruptError):
            value = read_file(self._path, _MAX_BYTES)
            return value if value.isdigit() else b""
        return b""

    def _read(self) -> bytes:
        return os.pread(self._descriptor, _MAX_BYTES, 0).strip()

    def _write(self, value: bytes) -> None:
        os.pwrite(self._descriptor, value, 0)
