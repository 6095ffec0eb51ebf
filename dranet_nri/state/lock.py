"""File locks between processes: one plugin per node, one write of allocations at a time.

A flock belongs to the open file: the kernel releases it when its process ends.
"""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

PLUGIN_LOCK: Final = Path("/run/dranet-nri/lock")
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE: Final = 0o600


class PluginLock:
    """Lock of the running plugin. A second instance retries until it acquires it."""

    def __init__(self, path: Path = PLUGIN_LOCK) -> None:
        """Name the lock file; nothing is opened yet."""
        self._path = path
        self._descriptor = -1

    def try_acquire(self) -> bool:
        """Acquire the lock if it is free; return whether this process owns it. Does not block.

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
        """Release. Idempotent. The file stays: without it two processes could own the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class OperationLock:
    """Lock of one write. Blocks while another process owns it; reentrant."""

    def __init__(self, path: Path, create: Callable[[], None]) -> None:
        """Prepare; the lock file is opened on use.

        Args:
            path: the lock file.
            create: creates its directory; called if it is missing.
        """
        self._path = path
        self._create = create
        self._descriptor = -1
        self._depth = 0

    def __enter__(self) -> None:
        """Acquire the lock."""
        if self._depth == 0:
            descriptor = self._open()
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            except BaseException:
                os.close(descriptor)
                raise
            self._descriptor = descriptor
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        """Release the lock."""
        self._depth -= 1
        if self._depth == 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> int:
        try:
            return os.open(self._path, _FLAGS, _MODE)
        except FileNotFoundError:
            self._create()
            return os.open(self._path, _FLAGS, _MODE)
