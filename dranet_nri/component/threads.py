"""Threads for work that may hang: no job waits for a thread that another one has.

A thread that ends its job waits for the next one: to start a thread for each costs a hook 0.2 ms.
One that hangs is not among those that wait, and a job that finds none gets a new thread.
"""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

KEPT: Final = 2  # threads that wait; more jobs at once are rare


class _Job(Generic[T]):
    """Work, and what comes of it for the event loop that made the job.

    Attributes:
        future: of that loop.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        """Prepare, on the event loop."""
        self._work = work
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self._loop.create_future()

    def result(self) -> Callable[[], None]:
        """Do the work; return what settles the future, for the loop."""
        try:
            return partial(self.future.set_result, self._work())
        except BaseException as error:  # noqa: BLE001 - handed to the caller, whatever it is
            return partial(self.future.set_exception, error)

    def notify(self, settle: Callable[[], None]) -> None:
        """Settle the future on the loop, unless its caller has left or the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(self._settle, settle)
        except RuntimeError:
            return  # The loop is closed: the process is on its way out.

    def _settle(self, settle: Callable[[], None]) -> None:
        if not self.future.done():
            settle()


class _Thread(threading.Thread):
    """A thread for one job after the other.

    Attributes:
        step: the current step of its job.
        loop: of its jobs.
    """

    step: object = ""

    def __init__(self) -> None:
        """Prepare; it never keeps the process from exiting."""
        super().__init__(name="kernel work", daemon=True)
        self.loop = asyncio.get_running_loop()
        self._jobs = SimpleQueue[_Job[Any] | None]()

    def take(self, job: _Job[Any]) -> None:
        """Begin a job."""
        self.step = "its first step"
        self._jobs.put(job)

    def end(self) -> None:
        """End it; it has no job."""
        self._jobs.put(None)

    def run(self) -> None:
        """Do jobs until there are enough threads that wait."""
        while self._is_kept(self._jobs.get()):
            pass

    def _is_kept(self, job: _Job[Any] | None) -> bool:
        """Do a job; return whether the thread waits for the next one.

        It waits before its caller is notified: the next job of that caller finds it.
        """
        if job is None:
            return False
        settle = job.result()
        kept = len(_waiting) < KEPT
        if kept:
            _waiting.append(self)
        job.notify(settle)
        return kept


_waiting: Final[list[_Thread]] = []


def _free_thread() -> _Thread:
    """Return a thread without a job; one of another loop ends.

    A thread is in the network namespace of the thread that started it. Two loops of a process, as
    in tests, may be in two.
    """
    while _waiting:
        thread = _waiting.pop()
        if thread.loop is asyncio.get_running_loop():
            return thread
        thread.end()
    thread = _Thread()
    thread.start()
    return thread


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
    """Run work on a thread that has no other work meanwhile, and return its result.

    The thread of a cancelled caller continues until its work ends, and does not block the exit of
    the process. A pool of a fixed size would lose each thread that hangs in the kernel.

    Raises:
        RuntimeError: there can be no thread.
    """
    job = _Job(work)
    worker = _free_thread()
    worker.take(job)
    if hang_timeout is None:
        return await job.future
    timer = asyncio.get_running_loop().call_later(
        hang_timeout.seconds,
        lambda: hang_timeout.ended(f"{worker.step} (thread {worker.native_id})"),
    )
    try:
        return await job.future
    finally:
        timer.cancel()
