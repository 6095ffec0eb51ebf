"""Work on separate threads: results, errors, cancelled callers, closed loops."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable

import pytest

from dranet_nri.component.threads import (
    MAX_IDLE,
    HangTimeout,
    _idle,
    in_thread,
    in_thread_to_the_end,
    set_step,
)

pytestmark = pytest.mark.process


class Gate:
    """Work that waits until the test releases it."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()
        self.left = threading.Event()
        self.thread: threading.Thread | None = None

    def work(self) -> str:
        self.thread = threading.current_thread()
        self.entered.set()
        self.go.wait()
        self.left.set()
        return "done"


def test_work_runs_on_a_daemon_thread() -> None:
    thread = asyncio.run(in_thread(threading.current_thread))

    assert thread is not threading.current_thread()
    assert thread.daemon


@pytest.mark.parametrize("result", ["text", None, 0], ids=repr)
def test_result_is_returned_unchanged(result: object) -> None:
    assert asyncio.run(in_thread(lambda: result)) is result


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3)], ids=["error", "exit"])
def test_exception_of_the_work_is_raised_in_the_caller(error: BaseException) -> None:
    def work() -> None:
        raise error

    async def caller() -> BaseException | None:
        try:
            await in_thread(work)
        except (ValueError, SystemExit) as caught:
            return caught
        return None

    assert asyncio.run(caller()) is error


def test_two_jobs_run_concurrently() -> None:
    barrier = threading.Barrier(2)

    async def both() -> None:
        await asyncio.gather(in_thread(barrier.wait), in_thread(barrier.wait))

    asyncio.run(both())

    assert not barrier.broken


def test_event_loop_runs_while_the_work_waits() -> None:
    gate = Gate()

    async def main() -> str:
        task = asyncio.create_task(in_thread(gate.work))
        while not gate.entered.is_set():  # noqa: ASYNC110 (a thread's event; the loop must turn)
            await asyncio.sleep(0)
        gate.go.set()
        return await task

    assert asyncio.run(main()) == "done"


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
def test_cancelled_caller_returns_and_the_work_completes(*, fails: bool) -> None:
    gate = Gate()
    errors: list[object] = []

    def work() -> str:
        gate.work()
        if fails:
            raise ValueError("ignored")
        return "done"

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        task = asyncio.create_task(in_thread(work))
        while not gate.entered.is_set():  # noqa: ASYNC110 (a thread's event; the loop must turn)
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not gate.left.is_set(), "the caller did not wait for the work"
        gate.go.set()
        await _idle_again(gate)

    asyncio.run(main())

    assert gate.left.is_set()
    assert errors == []


@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
def test_caller_that_is_cancelled_twice_waits_for_the_end(*, fails: bool) -> None:
    gate = Gate()
    errors: list[object] = []

    def work() -> None:
        gate.work()
        if fails:
            raise ValueError("ignored")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: errors.append(context))
        task = asyncio.create_task(in_thread_to_the_end(work))
        while not gate.entered.is_set():  # noqa: ASYNC110 (a thread's event; the loop must turn)
            await asyncio.sleep(0)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert not task.done()
        gate.go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert gate.left.is_set()

    asyncio.run(main())
    gc.collect()

    assert errors == []


def test_caller_that_is_cancelled_at_the_end_of_the_work_returns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reported = threading.Event()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        schedule = loop.call_soon_threadsafe

        def report(callback: Callable[..., None], *arguments: object) -> asyncio.Handle:
            handle = schedule(callback, *arguments)
            reported.set()
            return handle

        monkeypatch.setattr(loop, "call_soon_threadsafe", report)
        task = asyncio.create_task(in_thread_to_the_end(lambda: None))
        await asyncio.sleep(0)
        reported.wait()  # the loop must not run before the caller is cancelled
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_work_that_outlives_the_loop_ends_without_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    gate = Gate()

    async def main() -> None:
        task = asyncio.create_task(in_thread(gate.work))
        while not gate.entered.is_set():  # noqa: ASYNC110 (a thread's event; the loop must turn)
            await asyncio.sleep(0)
        task.cancel()

    asyncio.run(main())
    gate.go.set()
    asyncio.run(_idle_again(gate))

    assert gate.left.is_set()
    assert raised == []


def test_idle_thread_is_reused() -> None:
    async def main() -> list[threading.Thread]:
        return [await in_thread(threading.current_thread) for _ in range(3)]

    assert len(set(asyncio.run(main()))) == 1


def test_hung_job_is_not_reported_with_a_step_of_the_previous_job() -> None:
    gate = Gate()

    async def caller() -> str:
        reported: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        await in_thread(lambda: set_step("step of the previous job"))
        job = asyncio.create_task(in_thread(gate.work, HangTimeout(0.0, reported.set_result)))
        step = await reported
        gate.go.set()
        await job
        return step

    assert asyncio.run(caller()).startswith("its first step (thread ")


def test_hung_thread_delays_no_other_job() -> None:
    gates = [Gate() for _ in range(MAX_IDLE + 2)]

    async def main() -> list[str]:
        tasks = [asyncio.create_task(in_thread(gate.work)) for gate in gates]
        while not all(gate.entered.is_set() for gate in gates):  # noqa: ASYNC110 (as above)
            await asyncio.sleep(0)
        for gate in gates:
            gate.go.set()
        return await asyncio.gather(*tasks)

    assert asyncio.run(main()) == ["done"] * len(gates)
    assert len({gate.thread for gate in gates}) == len(gates)
    for gate in gates:
        if gate.thread not in _idle:
            assert gate.thread is not None
            gate.thread.join()
    assert len(_idle) <= MAX_IDLE


def test_idle_thread_does_not_keep_the_result() -> None:
    class Result:
        pass

    async def main() -> weakref.ref[Result]:
        return weakref.ref(await in_thread(Result))

    found = asyncio.run(main())
    gc.collect()

    assert found() is None


def test_thread_of_a_closed_loop_ends() -> None:
    """It may be in the network namespace of another test."""
    first = asyncio.run(in_thread(threading.current_thread))
    second = asyncio.run(in_thread(threading.current_thread))
    first.join()

    assert second is not first
    assert second in _idle


async def _idle_again(gate: Gate) -> None:
    """Wait until the gate's thread has notified its caller: it takes the next job, or has ended."""
    gate.left.wait()
    while gate.thread not in _idle:  # noqa: ASYNC110 (as above)
        await asyncio.sleep(0)
    await in_thread(threading.current_thread)
    if gate.thread not in _idle:
        assert gate.thread is not None
        gate.thread.join()
