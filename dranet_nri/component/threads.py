"""Threads for work that may hang. A hung job never delays another job.

Rules:
1. An idle thread is reused: starting one for each job would cost a hook 0.2 ms.
2. A job without an idle thread gets a new thread. A thread with a hung job is not idle.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from operator import methodcaller
from queue import SimpleQueue
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

MAX_IDLE: Final = 2  # idle threads; more jobs at the same time are rare


class _Job(Generic[T]):
    """Work of a thread, with a future for its result.

    Attributes:
        future: belongs to the event loop that created the job.
        ended: the work is complete; known on the event loop.
    """

    def __init__(self, work: Callable[[], T]) -> None:
        """Create the job, on the event loop."""
        self.ended = False
        self._work = work
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self._loop.create_future()

    def result(self) -> Callable[[asyncio.Future[T]], None]:
        """Do the work; return what completes a future with its result."""
        try:
            return methodcaller("set_result", self._work())
        except BaseException as error:  # noqa: BLE001 - every error is passed to the caller
            return methodcaller("set_exception", error)

    def notify(self, settle: Callable[[asyncio.Future[T]], None]) -> None:
        """Settle the future on the loop, unless its caller has left or the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(self._settle, settle)
        except RuntimeError:
            return  # the loop is closed: the process ends

    def _settle(self, settle: Callable[[asyncio.Future[T]], None]) -> None:
        self.ended = True
        if not self.future.done():
            settle(self.future)

    async def end(self) -> None:
        """Wait for the end of work whose future was cancelled with its caller; drop the result."""
        while not self.ended:
            self.future = self._loop.create_future()
            with suppress(asyncio.CancelledError):
                await asyncio.wait((self.future,))
        if not self.future.cancelled():
            self.future.exception()  # retrieved, because no caller does


class _Thread(threading.Thread):
    """A thread that runs jobs one after another.

    Attributes:
        step: the current step of its job.
        loop: event loop of its jobs.
    """

    step: object = ""

    def __init__(self) -> None:
        """Create a daemon thread: it does not block the exit of the process."""
        super().__init__(name="kernel work", daemon=True)
        self.loop = asyncio.get_running_loop()
        self._jobs = SimpleQueue[_Job[Any] | None]()

    def take(self, job: _Job[Any]) -> None:
        """Begin a job."""
        self.step = "its first step"
        self._jobs.put(job)

    def end(self) -> None:
        """End an idle thread."""
        self._jobs.put(None)

    def run(self) -> None:
        """Run jobs until there are enough idle threads."""
        while self._run_job(self._jobs.get()):
            pass

    def _run_job(self, job: _Job[Any] | None) -> bool:
        """Run a job; return whether the thread waits for the next one.

        It becomes idle before the caller is notified, so that the caller's next job can use it.
        """
        if job is None:
            return False
        settle = job.result()
        reusable = len(_idle) < MAX_IDLE
        if reusable:
            _idle.append(self)
        job.notify(settle)
        return reusable


_idle: Final[list[_Thread]] = []


def _free_thread() -> _Thread:
    """Return an idle thread of this loop. Idle threads of other loops are ended.

    A thread has the network namespace of the thread that started it, and two event loops of one
    process, as in tests, may have different ones.
    """
    while _idle:
        thread = _idle.pop()
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
        on_hang: called on the event loop with the thread's current step.
    """

    seconds: float
    on_hang: Callable[[str], None]


def set_step(step: object) -> None:
    """Record the next step of this thread; `str()` of it is logged if the step hangs."""
    worker = threading.current_thread()
    if isinstance(worker, _Thread):
        worker.step = step


def _start(work: Callable[[], T]) -> tuple[_Thread, _Job[T]]:
    """Begin work; return its thread, and its job."""
    job = _Job(work)
    worker = _free_thread()
    worker.take(job)
    return worker, job


async def in_thread(work: Callable[[], T], hang_timeout: HangTimeout | None = None) -> T:
    """Run work on a thread of its own, and return the result.

    The thread of a cancelled caller continues until its work ends, and does not block the exit of
    the process. A pool of a fixed size would lose each thread that hangs in the kernel.

    Raises:
        RuntimeError: no thread can be started.
    """
    worker, job = _start(work)
    if hang_timeout is None:
        return await job.future
    timer = asyncio.get_running_loop().call_later(
        hang_timeout.seconds,
        lambda: hang_timeout.on_hang(f"{worker.step} (thread {worker.native_id})"),
    )
    try:
        return await job.future
    finally:
        timer.cancel()


def soon_on_this_loop(work: Callable[[], None]) -> Callable[[], None]:
    """Return a function that a thread calls to schedule work on the running event loop."""
    loop = asyncio.get_running_loop()

    def schedule() -> None:
        with suppress(RuntimeError):  # the loop is closed: the process ends
            loop.call_soon_threadsafe(work)

    return schedule


async def in_thread_to_the_end(work: Callable[[], T]) -> T:
    """Run work on a thread; a cancellation takes effect only when the work is complete."""
    _, job = _start(work)
    try:
        return await job.future
    except asyncio.CancelledError:
        await job.end()
        raise
