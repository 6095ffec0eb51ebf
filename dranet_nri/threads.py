"""Threads for work that may hang: each job gets its own, and a stuck one can be left behind."""

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")


class _Worker(threading.Thread):
    """A thread with one job."""

    doing: object = "its first step"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long work may take before somebody is told; it goes on.

    Attributes:
        ended: called on the event loop with the step that the thread is at.
    """

    seconds: float
    ended: Callable[[str], None]


def now_doing(step: object) -> None:
    """Note what this thread does next; the step prints itself, if anybody asks."""
    worker = threading.current_thread()
    if isinstance(worker, _Worker):
        worker.doing = step


async def in_thread(work: Callable[[], T], patience: Patience | None = None) -> T:
    """Run work on a thread of its own and return what it returns.

    A cancelled caller leaves the thread behind; it ends when its work does, and it never keeps
    the process from exiting. Pool threads are not used: one that hangs in the kernel would be
    missing from the pool for good.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]  # T may itself be None

    def run() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = work()
        except BaseException as caught:  # noqa: BLE001 - handed to the caller, whatever it is
            error = caught
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            return  # The loop is closed: the process is on its way out.

    worker = _Worker(target=run, name="kernel work", daemon=True)
    worker.start()
    if patience is None:
        return await future
    told = loop.call_later(
        patience.seconds,
        lambda: patience.ended(f"{worker.doing} (thread {worker.native_id})"),
    )
    try:
        return await future
    finally:
        told.cancel()
