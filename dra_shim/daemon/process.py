"""Shim process: its workers, supervised until it is stopped.

Rules:
1. Pods wait for the registration at the kubelet, so the sockets are opened first. The other rooms,
   which take most of the start, are loaded on a thread while the kubelet is answered.
2. At shutdown the registration at the kubelet ends first, then the calls in progress. Records,
   slices and claim status stay; the next instance continues from them.
"""

import asyncio
import gc
import os
import signal
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from dra_shim.daemon.endpoint import KubeletEndpoint
from dra_shim.kubeletplugin import only_instance, sockets_of
from dra_shim.settings.run import RunSettings
from dranet_nri.component.log import logger
from dranet_nri.component.supervisor import Supervisor
from dranet_nri.component.threads import in_thread
from dranet_nri.model import DRIVER_NAME

if TYPE_CHECKING:
    from dra_shim.daemon.wiring import Shim


class ShimDaemon:
    """One shim process."""

    def __init__(self, settings: RunSettings, environ: Mapping[str, str]) -> None:
        """Check the settings; nothing is opened before run.

        Raises:
            InvalidValueError: the kubelet's directory has too long a path.
        """
        self._settings = settings
        self._environ = environ
        self._log = logger("daemon")
        self._sockets = sockets_of(settings.kubelet_root, DRIVER_NAME)
        self._may_load = asyncio.Event()
        self._owned = asyncio.Event()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT.

        Raises:
            InvalidValueError: a setting is not usable, or there is no access to an API server.
        """
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        for name, why in self._settings.ignored:
            self._log.warning("flag of dranet has no effect", flag=name, reason=why)
        work = asyncio.create_task(self._serve(), name="serve")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        await asyncio.wait((work, stopping), return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            self._log.info("stopping")
            work.cancel()
        stopping.cancel()
        await asyncio.wait((work,))
        if not work.cancelled():
            work.result()
        self._log.info("stopped")

    async def _serve(self) -> None:
        endpoint = KubeletEndpoint(self._sockets)
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(self._serve_kubelet(endpoint, stack), name="kubelet")
                    tasks.create_task(self._allow_loading(endpoint), name="sockets")
                    tasks.create_task(self._work(endpoint, stack), name="workers")
            except ExceptionGroup as group:
                raise group.exceptions[0] from group

    async def _serve_kubelet(self, endpoint: KubeletEndpoint, stack: AsyncExitStack) -> None:
        """Take the instance locks, then serve the sockets."""
        who, settings = f"pid {os.getpid()}", self._settings
        await stack.enter_async_context(only_instance(self._sockets.lock, who, self._wait_for))
        # Excludes `dra-shim allocate`, whose records the orphan collector would remove.
        settings.state.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = settings.state.daemon_lock
        await stack.enter_async_context(only_instance(lock, who, self._wait_for))
        self._log.info("serving", node=settings.node, pid=os.getpid())
        self._owned.set()
        await Supervisor((endpoint.worker,), endpoint.failed, clock=time.monotonic).run()

    async def _allow_loading(self, endpoint: KubeletEndpoint) -> None:
        await endpoint.plugin.tried()
        self._may_load.set()

    async def _work(self, endpoint: KubeletEndpoint, stack: AsyncExitStack) -> None:
        """Load and wire the shim, then supervise its workers."""
        await self._may_load.wait()
        shim = (await in_thread(_load_shim))(
            self._settings, self._environ, self._sockets, endpoint.plugin
        )
        stack.push_async_callback(shim.disconnect)
        stack.callback(shim.close)
        await self._owned.wait()
        gc.freeze()  # permanent objects; a collection of them would stop a Prepare for 0.1 s
        endpoint.wire(shim)
        await Supervisor(shim.workers(), shim.failed, clock=time.monotonic).run()

    def _wait_for(self, other: str) -> None:
        """Log the owner of the instance lock, and allow to load the shim, which checks settings."""
        log = logger("parts")
        log.warning("another instance runs on this node, waiting for it to end", who=other)
        self._may_load.set()


def _load_shim() -> "type[Shim]":
    from dra_shim.daemon.wiring import Shim

    return Shim
