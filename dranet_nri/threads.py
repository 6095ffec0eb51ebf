"""Threads for work that may hang: each job gets its own, and a stuck one can be left behind."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
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

    threading.Thread(target=run, name="kernel work", daemon=True).start()
    return await future
