"""A handler that records its calls and returns the results that a test sets."""

import asyncio
from collections.abc import Callable

from dranet_nri.model import Container, Edits, Pod
from dranet_nri.nri.stub import Answer, Handler

Key = tuple[str, str]  # hook, sandbox id


class RecordingHandler:
    """Remembers each start and end of a hook.

    Attributes:
        log: "run s1" when RunPodSandbox of s1 starts, "run s1 done" when it ends,
            "run s1 cancelled" when it is cancelled.
        unclaimed: sandbox ids that is_unclaimed says yes to.
        answered_early: sandbox ids whose StopPodSandbox is answered when it starts.
        unrefusable: sandbox ids that may_refuse says no to.
        errors: what a hook raises in its end.
        edits: what every container gets.
        deadlines: of the hooks that have one.
        lists: every list of sandbox ids.
    """

    def __init__(self) -> None:
        """Do nothing and succeed."""
        self.log: list[str] = []
        self.unclaimed: set[str] = set()
        self.answered_early: set[str] = set()
        self.unrefusable: set[str] = set()
        self.errors: dict[Key, Exception] = {}
        self.edits = Edits()
        self.deadlines: dict[Key, float] = {}
        self.lists: list[list[str]] = []
        self._held: dict[Key, asyncio.Event] = {}
        self._changed = asyncio.Condition()

    def hold(self, hook: str, sandbox_id: str) -> Callable[[], None]:
        """Let this hook wait until the function that is returned is called."""
        event = self._held[hook, sandbox_id] = asyncio.Event()
        return event.set

    async def logged(self, line: str) -> None:
        """Wait until the log has this line."""
        async with self._changed:
            await self._changed.wait_for(lambda: line in self.log)

    def is_unclaimed(self, pod: Pod, container: Container | None = None) -> bool:
        """Return or raise the result that the test set."""
        error = self.errors.get(("unclaimed", pod.sandbox_id))
        if error is not None:
            raise error
        return pod.sandbox_id in self.unclaimed

    def may_refuse(self, pod: Pod, container: Container | None = None) -> bool:
        """Return the result that the test set."""
        return pod.sandbox_id not in self.unrefusable

    async def synchronize(self, pods: tuple[Pod, ...]) -> None:
        """Record the list."""
        self.lists.append([pod.sandbox_id for pod in pods])
        await self._record("synchronize", "")

    async def run_pod_sandbox(self, pod: Pod, deadline: float) -> None:
        """Record."""
        self.deadlines["run", pod.sandbox_id] = deadline
        await self._record("run", pod.sandbox_id)

    async def stop_pod_sandbox(self, pod: Pod, answer: Answer) -> None:
        """Record; answer before that if the test wants it."""
        if pod.sandbox_id in self.answered_early:
            answer()
        await self._record("stop", pod.sandbox_id)

    async def remove_pod_sandbox(self, pod: Pod, answer: Answer) -> None:
        """Record."""
        await self._record("remove", pod.sandbox_id)

    async def create_container(self, pod: Pod, container: Container, deadline: float) -> Edits:
        """Record, and return the edits."""
        self.deadlines["create", pod.sandbox_id] = deadline
        await self._record("create", pod.sandbox_id)
        return self.edits

    async def _record(self, hook: str, sandbox_id: str) -> None:
        line = f"{hook} {sandbox_id}".strip()
        await self._write(line)
        held = self._held.get((hook, sandbox_id))
        try:
            if held is not None:
                await held.wait()
        except asyncio.CancelledError:
            await self._write(f"{line} cancelled")
            raise
        await self._write(f"{line} done")
        error = self.errors.get((hook, sandbox_id))
        if error is not None:
            raise error

    async def _write(self, line: str) -> None:
        self.log.append(line)
        async with self._changed:
            self._changed.notify_all()


def _is_a_handler(handler: RecordingHandler) -> Handler:
    return handler
