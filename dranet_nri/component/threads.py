"""Threads for kernel work that may hang: one per job, so that a hung one can be abandoned."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

T = TypeVar("T")


class _Thread(threading.Thread, Generic[T]):
    """A thread with one job, whose result goes to the event loop that made it.

    Attributes:
        step: the current step.
        future: the result, a future of that loop.
    """

    step: object = "its first step"

    def __init__(self, work: Callable[[], T]) -> None:
        """Prepare, on the event loop; `start` runs the job."""
        super().__init__(name="kernel work", daemon=True)
        self._work = work
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self._loop.create_future()

    def run(self) -> None:
        """Run the job, and hand the result to the loop."""
        try:
            settle: Callable[[], None] = partial(self.future.set_result, self._work())
        except BaseException as error:  # noqa: BLE001 - handed to the caller, whatever it is
            settle = partial(self.future.set_exception, error)
        try:
            self._loop.call_soon_threadsafe(self._settle, settle)
        except RuntimeError:
            return  # The loop is closed: the process exits.

    def _settle(self, settle: Callable[[], None]) -> None:
        if not self.future.done():
            settle()


@dataclass(frozen=True, slots=True)
class HangTimeout:
    """Time after which running work is reported as hung.

    Attributes:
        ended: called on the event loop with the thread's current step.
    """

    seconds: float
    ended: Callable[[str], None]


def set_step(step: object) -> None:
    """Record the next step of this thread; `str()` of it is logged if the step hangs."""
    worker = threading.current_thread()
    if isinstance(worker, _Thread):
        worker.step = step


async def in_thread(work: Callable[[], T], hang_timeout: HangTimeout | None = None) -> T:
    """Run work on a thread of its own and return its result.

    The thread of a cancelled caller continues until its work ends, and does not block the exit of
    the process. A pool would lose each thread that hangs in the kernel.
    """
    worker = _Thread(work)
    worker.start()
    if hang_timeout is None:
        return await worker.future
    timer = asyncio.get_running_loop().call_later(
        hang_timeout.seconds,
        lambda: hang_timeout.ended(f"{worker.step} (thread {worker.native_id})"),
    )
    try:
        return await worker.future
    finally:
        timer.cancel()
