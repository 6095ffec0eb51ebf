"""Hook dispatcher: order, deadlines and answers of hooks.

Rules:
1. Hooks of one sandbox run one at a time in arrival order, also across connections.
2. Each call is answered once, before the runtime's timeout: a runtime treats a timeout as success
   and disconnects the plugin.
3. At the deadline RunPodSandbox, StopPodSandbox and RemovePodSandbox are answered with success
   and continue; CreateContainer is answered with an error and cancelled, because a container must
   not start without its devices.
   A handler may answer StopPodSandbox and RemovePodSandbox before it ends.
4. A stopping plugin refuses unfinished calls if the handler permits it; the others are answered
   with success.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, assert_never

from dranet_nri.model import Container, Edits
from dranet_nri.nri.stub.handler import Answered, Handler, HookFailed, HookLate, Notify, Outcome
from dranet_nri.nri.stub.transport import Transport
from dranet_nri.nri.wire.messages import PodEventKind
from dranet_nri.nri.wire.session import (
    ContainerEvent,
    HookEvent,
    PendingCall,
    PodEvent,
    PodsSynchronized,
)
from dranet_nri.nri.wire.ttrpc import RpcCode
from dranet_nri.plan.refusals import described

BUDGET_SHARE: Final = 0.8  # of the runtime's timeout; the rest is for the answer's transport
DEFAULT_BUDGET_S: Final = 30.0  # of a call without timeout
MIN_BUDGET_S: Final = 0.001  # a call with less is answered by rule 3 at once

Sleep = Callable[[float], Awaitable[None]]


@dataclass(slots=True, eq=False)
class _Hook:
    event: HookEvent
    transport: Transport
    deadline: float
    on_answer: Callable[["_Hook", Outcome], None]
    answered: bool = False
    task: asyncio.Task[None] | None = None
    watch: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return self.event.kind if isinstance(self.event, PodEvent) else "CreateContainer"

    @property
    def container(self) -> Container | None:
        return self.event.container if isinstance(self.event, ContainerEvent) else None

    @property
    def open(self) -> bool:
        return not self.answered and self.transport.is_open

    def reply(self, edits: Edits | None, outcome: Outcome = "success") -> None:
        if self.open:
            self.transport.reply(self.event.call, edits)
            self.answered = True
            self.on_answer(self, outcome)

    def refuse(self, text: str, code: RpcCode = RpcCode.UNKNOWN) -> None:
        if self.open:
            self.answered = True
            self.transport.refuse(self.event.call, text, code)
            self.on_answer(self, "failed")


@dataclass(slots=True, eq=False)
class _Queue:
    """Hooks of one sandbox: the owner of the lock runs, the others wait in order."""

    hooks: int = 0
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


def deadline_of(call: PendingCall, arrival: float) -> float:
    """Return the deadline of the answer, in seconds of the clock of `arrival`."""
    if call.timeout_nano == 0:
        return arrival + DEFAULT_BUDGET_S
    return arrival + BUDGET_SHARE * call.timeout_nano / 1e9


class Dispatcher:
    """Runs the hooks of this connection, and unfinished ones of earlier connections."""

    def __init__(
        self,
        handler: Handler,
        clock: Callable[[], float],
        sleep: Sleep,
        notify: Notify,
        answered: Answered,
    ) -> None:
        """Start without hooks."""
        self._handler = handler
        self._clock = clock
        self._sleep = sleep
        self._notify = notify
        self._answered = answered
        self._tasks: set[asyncio.Task[None]] = set()
        self._hooks: set[_Hook] = set()
        self._queues: dict[str, _Queue] = {}
        self._synchronizing: asyncio.Task[None] | None = None
        self._stopping = False

    def synchronize(self, event: PodsSynchronized) -> None:
        """Hand the list to the handler, after the previous list; later hooks wait for it."""
        if not self._stopping:
            self._synchronizing = self._spawn(self._synchronize(event, self._synchronizing))

    def submit(self, event: HookEvent, transport: Transport, arrival: float) -> None:
        """Answer the event at once if it needs no work, else queue its hook."""

        def on_answer(hook: _Hook, outcome: Outcome) -> None:
            self._answered(hook.name, event.pod, outcome, self._clock() - arrival)

        hook = _Hook(event, transport, deadline_of(event.call, arrival), on_answer)
        if event.pod.sandbox_id not in self._queues and self._answered_at_once(hook):
            return
        if self._stopping:
            self._refuse_unfinished(hook)
            return
        remaining_s = hook.deadline - self._clock()
        if remaining_s < MIN_BUDGET_S:
            self._expire(hook)
            if isinstance(event, ContainerEvent):
                return
        else:
            hook.watch = self._spawn(self._watch(hook, remaining_s))
        self._enqueue(hook)

    def disconnected(self) -> None:
        """Cancel work whose answer needs the lost connection; the rest continues."""
        for hook in self._hooks:
            if isinstance(hook.event, ContainerEvent):
                _cancel(hook.task)

    async def settle(self, grace_s: float) -> None:
        """Accept no more hooks, wait up to grace_s for running ones, answer the rest."""
        self._stopping = True
        timer = asyncio.ensure_future(self._sleep(grace_s))
        try:
            while self._hooks and not timer.done():
                working = {hook.task for hook in self._hooks if hook.task is not None}
                await asyncio.wait({timer, *working}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()
        for hook in self._hooks:
            self._refuse_unfinished(hook)

    async def cancel(self) -> None:
        """Cancel the remaining tasks and wait for their end."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _refuse_unfinished(self, hook: _Hook) -> None:
        if not hook.open:
            return
        if self._handler.may_refuse(hook.event.pod, hook.container):
            text = f"{hook.name} {hook.event.pod}: the plugin is stopping; the kubelet tries again"
            hook.refuse(text, RpcCode.UNAVAILABLE)
        else:
            hook.reply(None)

    def _answered_at_once(self, hook: _Hook) -> bool:
        try:
            unclaimed = self._handler.is_unclaimed(hook.event.pod, hook.container)
        except Exception as error:  # noqa: BLE001 - one pod's failure must not end the connection
            self._notify(HookFailed(hook.name, hook.event.pod, error, reported=False))
            return False
        if unclaimed:
            hook.reply(None, "noop")
        return unclaimed

    def _enqueue(self, hook: _Hook) -> None:
        queue = self._queues.setdefault(hook.event.pod.sandbox_id, _Queue())
        queue.hooks += 1
        self._hooks.add(hook)
        hook.task = self._spawn(self._run(hook, queue, self._synchronizing))
        hook.task.add_done_callback(lambda _task: self._done(hook, queue))

    def _done(self, hook: _Hook, queue: _Queue) -> None:
        _cancel(hook.watch)
        hook.watch = hook.task = None  # a reference cycle would keep each hook until a collection
        self._hooks.discard(hook)
        queue.hooks -= 1
        if queue.hooks == 0:
            del self._queues[hook.event.pod.sandbox_id]

    async def _run(
        self, hook: _Hook, queue: _Queue, synchronizing: asyncio.Task[None] | None
    ) -> None:
        async with queue.turn:
            await _finished(synchronizing)
            try:
                hook.reply(await self._call(hook))
            except Exception as error:  # noqa: BLE001 - one pod's failure must not end the plugin
                self._fail(hook, error)

    async def _call(self, hook: _Hook) -> Edits | None:
        match hook.event:
            case ContainerEvent(pod, container):
                return await self._handler.create_container(pod, container, hook.deadline)
            case PodEvent(PodEventKind.RUN, pod):
                await self._handler.run_pod_sandbox(pod, hook.deadline)
            case PodEvent(PodEventKind.STOP, pod):
                await self._handler.stop_pod_sandbox(pod, partial(hook.reply, None))
            case PodEvent(PodEventKind.REMOVE, pod):
                await self._handler.remove_pod_sandbox(pod, partial(hook.reply, None))
        return None

    def _fail(self, hook: _Hook, error: Exception) -> None:
        reported = hook.open
        hook.refuse(described(error))
        self._notify(HookFailed(hook.name, hook.event.pod, error, reported))

    async def _watch(self, hook: _Hook, remaining_s: float) -> None:
        await self._sleep(remaining_s)
        if hook.open:
            self._expire(hook)

    def _expire(self, hook: _Hook) -> None:
        match hook.event:
            case PodEvent():
                hook.reply(None, "deferred")
            case ContainerEvent(pod):
                text = f"CreateContainer {pod}: the pod's devices are still being attached"
                hook.refuse(f"{text}; the kubelet tries again", RpcCode.ABORTED)
                _cancel(hook.task)
            case _:
                assert_never(hook.event)
        self._notify(HookLate(hook.name, hook.event.pod))

    async def _synchronize(
        self, event: PodsSynchronized, previous: asyncio.Task[None] | None
    ) -> None:
        await _finished(previous)
        try:
            await self._handler.synchronize(event.pods)
        except Exception as error:  # noqa: BLE001 - the next list or the resync repairs it
            self._notify(HookFailed("Synchronize", None, error, reported=False))


async def _finished(task: asyncio.Task[None] | None) -> None:
    if task is not None and not task.done():
        await asyncio.wait({task})


def _cancel(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
