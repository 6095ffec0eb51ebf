"""Locks between processes: one plugin per node, one write at a time per directory.

A flock belongs to the open file, so the kernel releases it however its owner ends.
"""

import fcntl
import os
from pathlib import Path
from typing import Final

PLUGIN_LOCK: Final = Path("/run/dranet-nri/lock")
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE: Final = 0o600


class PluginLock:
    """Held for the life of the plugin. A second instance tries until it gets it."""

    def __init__(self, path: Path = PLUGIN_LOCK) -> None:
        """Name the lock file; nothing is opened yet."""
        self._path = path
        self._descriptor = -1

    def try_acquire(self) -> bool:
        """Take the lock if it is free; True if this process owns it now. Never waits.

        Raises:
            OSError: the lock file cannot be opened.
        """
        if self._descriptor >= 0:
            return True
        descriptor = os.open(self._path, _FLAGS, _MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException as cause:
            os.close(descriptor)
            if isinstance(cause, BlockingIOError):
                return False
            raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Let go. Idempotent. The file stays: removing it would let two holders in."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class OperationLock:
    """Held for one write. Waits for the present owner; the owner may enter it again."""

    def __init__(self, path: Path) -> None:
        """Name the lock file; nothing is opened yet."""
        self._path = path
        self._descriptor = -1
        self._depth = 0

    def __enter__(self) -> None:
        """Take the lock."""
        if self._depth == 0:
            descriptor = os.open(self._path, _FLAGS, _MODE)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except BaseException:
                os.close(descriptor)
                raise
            self._descriptor = descriptor
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        """Let go."""
        self._depth -= 1
        if self._depth == 0:
            os.close(self._descriptor)
            self._descriptor = -1
