"""The plugin process: everything put together, and the loops that run until it is stopped."""

import asyncio
import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, assert_never

import structlog

from dranet_nri.attacher import Attacher
from dranet_nri.connection import (
    Connection,
    Disconnected,
    Endpoint,
    HookFailed,
    HookLate,
    Notice,
    Serving,
    endpoint_from_environ,
)
from dranet_nri.edits import EditOptions
from dranet_nri.executor import Executor
from dranet_nri.facts.infiniband import char_devices
from dranet_nri.facts.udev import DeviceEvents
from dranet_nri.files import RealFs
from dranet_nri.gate import Gate
from dranet_nri.journal import SharedAttachments
from dranet_nri.kernel.netlink import NetlinkKernel
from dranet_nri.log import logger
from dranet_nri.plugin import Plugin
from dranet_nri.settings import Settings
from dranet_nri.state.lock import PluginLock
from dranet_nri.state.reader import AllocationReader
from dranet_nri.state.store import AttachmentStore

FIRST_DELAY_S: Final = 0.2  # before trouble is looked at again; doubles up to the sweep
LOCK_POLL_S: Final = 0.5
APPEARING: Final = frozenset({"add", "move", "bind"})  # uevent actions, linux/kobject.h


class SystemClock:
    """The kernel's clocks."""

    def wall(self) -> int:
        """Return Unix seconds."""
        return int(time.time())

    def boot(self) -> int:
        """Return seconds of CLOCK_BOOTTIME, which counts suspend and no clock change moves."""
        return int(time.clock_gettime(time.CLOCK_BOOTTIME))


@dataclass(slots=True)
class Bell:
    """Asks for a reconciliation: at once for news, after a growing delay for trouble."""

    sweep_s: float
    delay_s: float = FIRST_DELAY_S
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _any: asyncio.Event = field(default_factory=asyncio.Event)

    def news(self) -> None:
        """Say that the world changed."""
        self._news.set()
        self._any.set()

    def trouble(self) -> None:
        """Say that something is left to be repaired."""
        self._any.set()

    async def wait(self) -> None:
        """Return when it is time to look: news, trouble after its delay, or the sweep."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._any.wait(), self.sweep_s)
        if self._any.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), self.delay_s)
        self._news.clear()
        self._any.clear()

    def settle(self, *, pending: bool) -> None:
        """Take in how the reconciliation went."""
        if pending:
            self.delay_s = min(self.delay_s * 2, self.sweep_s)
            self.trouble()
        else:
            self.delay_s = FIRST_DELAY_S


class Daemon:
    """One plugin process."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        """Prepare; nothing is opened before run.

        Raises:
            InvalidValueError: a setting is not usable.
        """
        self._settings = settings
        self._log: structlog.typing.FilteringBoundLogger = logger("daemon")
        dialled = Endpoint(settings.name, settings.index, str(settings.nri_socket))
        self._endpoint = endpoint_from_environ(environ, dialled)
        self._bell = Bell(settings.sweep_s)

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, or until the runtime that launched us is gone."""
        settings = self._settings
        settings.run.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = PluginLock(settings.run / "lock")
        await self._acquire(lock)
        kernel = NetlinkKernel(proc_root=str(settings.proc), sys_root=str(settings.sysfs))
        attachments = SharedAttachments(AttachmentStore(settings.attachments))
        allocations = AllocationReader(settings.allocations, owner=None)
        try:
            plugin = self._plugin(kernel, attachments, allocations)
            await plugin.reconcile()
            await self._serve(plugin, allocations)
        finally:
            allocations.close()
            attachments.close()
            lock.release()

    async def _acquire(self, lock: PluginLock) -> None:
        if lock.try_acquire():
            return
        self._log.warning("another instance runs on this node, waiting for it to end")
        while not lock.try_acquire():  # noqa: ASYNC110 - another process's flock tells nobody
            await asyncio.sleep(LOCK_POLL_S)

    def _plugin(
        self, kernel: NetlinkKernel, attachments: SharedAttachments, allocations: AllocationReader
    ) -> Plugin:
        settings = self._settings
        attacher = Attacher(
            kernel=kernel,
            executor=Executor(
                kernel,
                attachments,
                SystemClock(),
                lambda name: char_devices(name, sysfs=settings.sysfs),
            ),
            attachments=attachments,
            gate=Gate(RealFs(), settings.cdi, settings.metadata),
            options=EditOptions(settings.memlock, settings.environment),
            log=logger("attach"),
            wake=self._bell.trouble,
            clock=SystemClock(),
        )
        return Plugin(attacher, allocations, logger("plugin"), self._bell.news)

    async def _serve(self, plugin: Plugin, allocations: AllocationReader) -> None:
        connection = Connection(self._endpoint, plugin, self._notice)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, connection.close)
        events = DeviceEvents()
        loop.add_reader(allocations.fileno(), self._allocations_changed, allocations)
        loop.add_reader(events.fileno(), self._devices_changed, events, plugin)
        try:
            async with asyncio.TaskGroup() as tasks:
                repair = tasks.create_task(self._repair(plugin), name="repair")
                await connection.run()
                repair.cancel()
        finally:
            loop.remove_reader(allocations.fileno())
            loop.remove_reader(events.fileno())

    def _allocations_changed(self, allocations: AllocationReader) -> None:
        if allocations.refresh():
            self._bell.news()

    def _devices_changed(self, events: DeviceEvents, plugin: Plugin) -> None:
        """Look at once when a device appears while one is missing: it may have come home."""
        appeared = [event for event in events.pending() if event.action in APPEARING]
        if appeared and plugin.pending():
            self._bell.news()

    async def _repair(self, plugin: Plugin) -> None:
        """Reconcile for ever. Whatever one round meets, the next one comes."""
        while True:
            await self._bell.wait()
            self._bell.settle(pending=await plugin.reconcile())

    def _notice(self, notice: Notice) -> None:
        match notice:
            case Serving():
                self._log.info(
                    "serving",
                    runtime=f"{notice.runtime_name} {notice.runtime_version}",
                    nri=notice.nri_version,
                    pid=os.getpid(),
                )
            case Disconnected():
                self._log.warning("disconnected", reason=notice.reason, retry_s=notice.retry_s)
            case HookLate():
                self._log.warning("hook at its deadline", hook=notice.hook, pod=str(notice.pod))
            case HookFailed():
                self._log.error(
                    "hook failed",
                    hook=notice.hook,
                    pod=str(notice.pod),
                    told=notice.told,
                    reason=str(notice.error),
                )
            case _:
                assert_never(notice)
