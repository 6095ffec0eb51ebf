"""Plugin process: wiring of the components, and the loops that run until it is stopped."""

import asyncio
import gc
import os
import signal
from collections.abc import Collection, Mapping
from contextlib import closing, nullcontext, suppress
from functools import partial
from typing import Final, assert_never

import structlog

from dranet_nri.attach.allocations import PodAllocations
from dranet_nri.attach.checks.guard import PublishGuard
from dranet_nri.attach.controller import AttachController
from dranet_nri.attach.execution.executor import PlanExecutor
from dranet_nri.attach.metrics import ATTACH_HOOKS
from dranet_nri.attach.rdma import RdmaOptions
from dranet_nri.attach.reconciler import Reconciler
from dranet_nri.attach.records import AttachmentRecords
from dranet_nri.attach.renewal import LeaseRenewer
from dranet_nri.cdi.edits import EditOptions
from dranet_nri.cdi.gate import Gate
from dranet_nri.component.clock import SystemClock
from dranet_nri.component.deferred import DeferredReader
from dranet_nri.component.files import DeferredFileSystem, FileSystem
from dranet_nri.component.log import logger, trace_of
from dranet_nri.daemon.leases import LeaseLoop
from dranet_nri.daemon.schedule import ReconcileSchedule
from dranet_nri.daemon.triggers import LIFECYCLE, needs_reconcile
from dranet_nri.errors import KernelError
from dranet_nri.facts import privileged
from dranet_nri.facts.host import boot_id
from dranet_nri.facts.uevents import DeviceEvents
from dranet_nri.hooks.handler import HookHandler
from dranet_nri.kernel.grace_periods import PARAMETER, GracePeriods
from dranet_nri.kernel.session import NetlinkKernel, Shortened
from dranet_nri.kernel.settings.sysctl import check_root
from dranet_nri.linux.netlink.other_netns import UpperLinks
from dranet_nri.linux.rdma.types import RdmaEvent
from dranet_nri.linux.rdma.watcher import RdmaListener
from dranet_nri.model import Phase
from dranet_nri.nri.runtime_quirks import forgets_rejected_sandboxes
from dranet_nri.nri.stub import (
    Connection,
    Disconnected,
    Endpoint,
    HookFailed,
    HookLate,
    Notice,
    Serving,
    Unsynchronized,
    endpoint_from_environ,
)
from dranet_nri.plan.refusals import described
from dranet_nri.settings import Settings
from dranet_nri.state.lock import PluginLock
from dranet_nri.state.reader import AllocationReader
from dranet_nri.state.store import AttachmentStore
from dranet_nri.telemetry.heartbeat import TelemetryWriter
from dranet_nri.telemetry.privileged_facts import PrivilegedFactsWriter

LOCK_POLL_S: Final = 0.5
EVENTS_S: Final = 1.0  # between reads of the host's link and route events
# Between a change of allocations and its reading: the shim answers the kubelet meanwhile. A hook
# reads them itself.
ALLOCATIONS_S: Final = 0.005
LONG_MOVES: Final = "make it writable by --rcu-parameters, as in manifests/"
WITHOUT_EVENTS: Final = "add the capability NET_BROADCAST, as in manifests/"


class NriDaemon:
    """One plugin process."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        """Prepare; `run` opens files and sockets.

        Raises:
            InvalidValueError: a setting is invalid.
        """
        check_root(settings.proc)
        self._settings = settings
        self._log: structlog.typing.FilteringBoundLogger = logger("daemon")
        default = Endpoint(settings.name, settings.index, str(settings.nri_socket))
        self._endpoint = endpoint_from_environ(environ, default)
        self._schedule = ReconcileSchedule(settings.resync_s)
        self._files = DeferredFileSystem()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT, or until the runtime that launched the plugin exits.

        The lock is released by the end of the process, not here: a thread may still work in the
        kernel, and the next instance must not start before it has ended.
        """
        settings = self._settings
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        settings.run.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = PluginLock(settings.run / "lock")
        if not await self._acquired(lock, stop):
            return
        kernel = NetlinkKernel(
            proc_root=str(settings.proc),
            sys_root=str(settings.sysfs),
            shortened=self._grace_periods(),
        )
        if not kernel.kept.uppers.kept:
            self._log.warning("each attach reads the links of all pods", remedy=WITHOUT_EVENTS)
        attachments = AttachmentRecords(AttachmentStore(settings.attachments, fs=self._files))
        with AllocationReader(settings.allocations, owner=None) as allocations:
            plugin = self._plugin(kernel, attachments, allocations)
            self._clear(plugin.attacher.gate, attachments)
            gc.freeze()  # permanent objects; a collection of them would stop all hooks for 30 ms
            with closing(DeferredReader(kernel.kept.filenos(), kernel.kept.take_events, EVENTS_S)):
                await self._serve(plugin, kernel.kept.uppers, stop)
        self._log.info("stopped")

    async def _acquired(self, lock: PluginLock, stop: asyncio.Event) -> bool:
        """Acquire the lock; return False if stopped before."""
        if lock.try_acquire():
            return True
        self._log.warning("another instance runs on this node, waiting for it to end")
        while not stop.is_set():
            # No event reports the release of another process's flock.
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), LOCK_POLL_S)
            if lock.try_acquire():
                return True
        return False

    def _grace_periods(self) -> Shortened:
        """Return what shortens grace periods, if the parameter can be written."""
        settings = self._settings
        if settings.rcu is None:
            return nullcontext
        try:
            return GracePeriods(settings.rcu, settings.run / PARAMETER, self._files).shortened
        except OSError as error:
            self._log.info("moves of NICs take longer", reason=str(error), remedy=LONG_MOVES)
            return nullcontext

    def _plugin(
        self, kernel: NetlinkKernel, attachments: AttachmentRecords, allocations: AllocationReader
    ) -> HookHandler:
        settings = self._settings
        attacher = AttachController(
            kernel=kernel,
            executor=PlanExecutor(
                kernel,
                attachments,
                SystemClock(),
                RdmaOptions(settings.rdma_mode, settings.rdma_char_devices),
                PublishGuard(
                    settings.node_addresses, settings.uplinks, settings.include, settings.parents
                ),
                settings.slaac_s,
                settings.dhcp_s,
            ),
            attachments=attachments,
            gate=Gate(self._files, settings.cdi, settings.metadata),
            options=EditOptions(settings.memlock, settings.environment),
            log=logger("attach"),
            wake=self._schedule.request_soon,
            clock=SystemClock(),
            vm_handlers=settings.vm_handlers,
            allocation=allocations.get,
        )
        log, schedule = logger("plugin"), self._schedule
        of_pods = PodAllocations(
            allocations, kernel, log, schedule.request_now, schedule.request_soon, boot_id()
        )
        return HookHandler(attacher, of_pods, Reconciler(attacher, of_pods, log), log)

    def _clear(self, gate: Gate, attachments: AttachmentRecords) -> None:
        """Remove gate files of a crash; a failure blocks no other work."""
        try:
            gate.clear(
                {
                    record.claim.uid
                    for record in attachments.all()
                    if record.phase is not Phase.RESTORED
                }
            )
        except OSError as error:
            self._log.warning("files of a crash not cleared", reason=str(error))

    async def _serve(self, plugin: HookHandler, uppers: UpperLinks, stop: asyncio.Event) -> None:
        def notify(notice: Notice) -> None:
            self._log_notice(plugin, notice)
            if isinstance(notice, Serving | Unsynchronized | Disconnected):
                telemetry.write_soon()

        connection = Connection(self._endpoint, plugin, notify, answered=plugin.answered)
        telemetry = TelemetryWriter(
            FileSystem(),
            self._settings.run,
            plugin,
            self._schedule,
            lambda: connection.status,
        )
        facts = partial(privileged.read_privileged_facts, uppers)
        read = partial(plugin.attacher.watchdog.run, facts)
        facts_writer = PrivilegedFactsWriter(FileSystem(), self._settings.run, read)
        leases = LeaseLoop(LeaseRenewer(plugin.attacher, plugin.reconciler.is_desired))
        plugin.attacher.on_attached = leases.note
        loop = asyncio.get_running_loop()
        events = DeviceEvents()
        rdma = RdmaListener(
            self._settings.sysfs, partial(self._rdma_changed, plugin), self._rdma_lost
        )
        allocations = DeferredReader(
            (plugin.allocations.reader.fileno(),), plugin.allocations.refresh, ALLOCATIONS_S
        )
        loop.add_reader(events.fileno(), self._devices_changed, events, rdma, plugin)
        rdma.follow()
        try:
            async with asyncio.TaskGroup() as tasks:
                workers = (
                    tasks.create_task(telemetry.run(), name="telemetry"),
                    tasks.create_task(facts_writer.run(), name="privileged facts"),
                    tasks.create_task(self._reconcile_loop(plugin), name="repair"),
                    tasks.create_task(leases.run(), name="leases"),
                    tasks.create_task(self._stop_on_signal(connection, stop), name="stop"),
                )
                await connection.run()
                for worker in workers:
                    worker.cancel()
        finally:
            allocations.close()
            loop.remove_reader(events.fileno())
            rdma.close()

    async def _stop_on_signal(self, connection: Connection, stop: asyncio.Event) -> None:
        await stop.wait()
        self._log.info("stopping")
        connection.close()

    def _devices_changed(
        self, events: DeviceEvents, rdma: RdmaListener, plugin: HookHandler
    ) -> None:
        """Schedule a reconcile soon after events."""
        found = tuple(events.pending())
        rdma.follow()
        if needs_reconcile(found, plugin.reconciler):
            self._schedule.note_kernel_event()

    def _rdma_changed(self, plugin: HookHandler, events: Collection[RdmaEvent]) -> None:
        """Schedule a reconcile soon when RDMA devices appear or disappear."""
        if not LIFECYCLE.isdisjoint(events) and plugin.reconciler.has_rdma():
            self._schedule.note_kernel_event()

    def _rdma_lost(self, error: KernelError) -> None:
        """Log the error. Device events and the periodic reconcile cover the same changes."""
        self._log.warning("RDMA events are not received", reason=str(error))

    async def _reconcile_loop(self, plugin: HookHandler) -> None:
        """Reconcile until cancelled; a failed round does not end the loop."""
        while True:
            await self._schedule.wait()
            pending = True
            try:
                pending = await plugin.reconcile()
                plugin.attacher.metrics.work.rounds.add("pending" if pending else "settled")
            except Exception:  # noqa: BLE001 - a failed round does not end the loop
                self._log.exception("repair failed")
                plugin.attacher.metrics.work.rounds.add("failed")
            self._schedule.settle(pending=pending)

    def _log_notice(self, plugin: HookHandler, notice: Notice) -> None:
        counts = plugin.attacher.metrics.hooks
        match notice:
            case Serving():
                counts.connected(notice.timeout_s)
                plugin.may_reject = forgets_rejected_sandboxes(
                    notice.runtime_name, notice.runtime_version
                )
                self._log.info(
                    "serving",
                    runtime=f"{notice.runtime_name} {notice.runtime_version}",
                    nri=notice.nri_version,
                    pid=os.getpid(),
                )
            case Unsynchronized():
                self._log.warning("connected, but not served", reason=notice.reason)
            case Disconnected():
                counts.disconnects.add()
                self._log.warning("disconnected", reason=notice.reason, retry_s=notice.retry_s)
            case HookLate():
                counts.late.add(notice.hook)
                self._log.warning("hook at its deadline", hook=notice.hook, pod=str(notice.pod))
            case HookFailed():
                if notice.hook in ATTACH_HOOKS:
                    counts.refused(notice.error)
                self._log.error(
                    "hook failed",
                    hook=notice.hook,
                    pod=str(notice.pod),
                    reported=notice.reported,
                    reason=described(notice.error),
                    exc_info=trace_of(notice.error),
                )
            case _:
                assert_never(notice)
