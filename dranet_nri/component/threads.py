"""Threads for work that may hang: one per job, so that a hung one can be abandoned."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")


class _Thread(threading.Thread, Generic[T]):
    """A thread with one job, and what comes of it for the event loop that made it.

    Attributes:
        doing: the step it is at.
        future: of that loop.
    """

    doing: object = "its first step"

    def __init__(self, work: Callable[[], T]) -> None:
        """Prepare, on the event loop; start does the work."""
        super().__init__(name="kernel work", daemon=True)
        self._work = work
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self._loop.create_future()

    def run(self) -> None:
        """Do the work, and notify the loop."""
        try:
            tell: Callable[[], None] = partial(self.future.set_result, self._work())
        except BaseException as error:  # noqa: BLE001 - handed to the caller, whatever it is
            tell = partial(self.future.set_exception, error)
        try:
            self._loop.call_soon_threadsafe(self._settle, tell)
        except RuntimeError:
            return  # The loop is closed: the process is on its way out.

    def _settle(self, tell: Callable[[], None]) -> None:
        if not self.future.done():
            tell()


@dataclass(frozen=True, slots=True)
class HangTimeout:
    """Time after which work that goes on is reported as hung.

    Attributes:
        ended: called on the event loop with the step that the thread is at.
    """

    seconds: float
    ended: Callable[[str], None]


def set_step(step: object) -> None:
    """Note what this thread does next; the step prints itself in a log line."""
    worker = threading.current_thread()
    if isinstance(worker, _Thread):
        worker.doing = step


async def in_thread(work: Callable[[], T], patience: HangTimeout | None = None) -> T:
    """Run work on a thread of its own and return what it returns.

    A cancelled caller leaves the thread behind; it ends when its work does, and it never keeps
    the process from exiting. Pool threads are not used: one that hangs in the kernel would be
    missing from the pool for good.
    """
    worker = _Thread(work)
    worker.start()
    if patience is None:
        return await worker.future
    told = asyncio.get_running_loop().call_later(
        patience.seconds,
        lambda: patience.ended(f"{worker.doing} (thread {worker.native_id})"),
    )
    try:
        return await worker.future
    finally:
        told.cancel()
