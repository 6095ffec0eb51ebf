"""Instance lock: one shim per node; a second instance waits, and logs the owner."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from dra_shim.kubeletplugin.sockets import make_data_directory
from dranet_nri.state.lock import PluginLock

POLL_S: Final = 0.5  # the kernel reports no event when another process releases its flock


@asynccontextmanager
async def only_instance(
    lock: Path,
    who: str,
    waiting: Callable[[str], None],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[None]:
    """Own the lock in the context; wait until the current owner releases it.

    Args:
        lock: lock file in the driver's directory, which is created if it is missing.
        who: one line that identifies this instance.
        waiting: called with the line of the owner, whenever it changes.
        sleep: waits this number of seconds.

    Raises:
        SocketError: the directory cannot be created.
        OSError: the lock cannot be opened.
    """
    make_data_directory(lock.parent)
    plugin_lock = PluginLock(lock)
    reported_owner: str | None = None
    while not plugin_lock.try_acquire():
        owner = _read(lock)
        if owner != reported_owner:
            waiting(owner)
            reported_owner = owner
        await sleep(POLL_S)
    try:
        # On a full disk the line is missing, and the shim still unprepares claims of evicted pods.
        with suppress(OSError):
            _write(lock, who)
        yield
    finally:
        plugin_lock.release()


def _read(path: Path) -> str:
    return path.read_text(errors="replace").strip()


def _write(path: Path, who: str) -> None:
    path.write_text(f"{who}\n")
