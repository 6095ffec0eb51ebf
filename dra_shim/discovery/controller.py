"""Discovery controller: scans the node for ResourceSlices, Prepare and the kubelet's device health.

Rules:
1. An event triggers a scan, and the scan reads the state. The event loop never waits for the
   kernel.
2. If scans fail or hang, published devices stay published. After some time the health of all
   devices is unknown.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from dra_shim.checkpoint.cache import RecordCache
from dra_shim.discovery import notices
from dra_shim.discovery.host import Host, LiveHost
from dra_shim.discovery.node_addresses import AddressSource, NodeAddresses
from dra_shim.discovery.reporter import HealthReporter
from dra_shim.discovery.scanner import CloudFacts, NodeScanner
from dra_shim.discovery.schedule import ScanSchedule
from dra_shim.discovery.snapshot import DeviceSelection
from dra_shim.pool import DriverResources, HealthReport
from dra_shim.settings.common import StatePaths
from dranet_nri.component.clock import REAL, LoopClock, Wakeup
from dranet_nri.component.deferred import DeferredReader
from dranet_nri.errors import DranetError
from dranet_nri.facts.sysfs import SYSFS
from dranet_nri.model import Device

# seconds, as dranet's --inventory-max-poll-interval; InfiniBand port states cause no event
RESCAN_S: Final = 60.0
HUNG_S: Final = 10.0  # seconds; a scan takes a fraction of a second


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Options of a node's scans.

    Attributes:
        selection: the selection of published devices.
        azure_size: Azure VM size of this node, "" if unknown.
        sysfs: mount point of a sysfs of this network namespace.
        rescan_s: seconds between full scans.
        hang_timeout_s: seconds after which a scan is reported as hung.
    """

    selection: DeviceSelection = field(default_factory=DeviceSelection)
    azure_size: str = ""
    sysfs: Path = SYSFS
    rescan_s: float = RESCAN_S
    hang_timeout_s: float = HUNG_S


class NodeDevices:
    """Devices of the node, kept current: a NodeSource and a HealthSource."""

    def __init__(
        self,
        options: NodeOptions,
        state: StatePaths,
        node: str,
        addresses: AddressSource,
        publish: Callable[[DriverResources], None],
        notify: notices.Notify,
        *,
        clouds: CloudFacts,
        host: Host | None = None,
        timing: LoopClock = REAL,
    ) -> None:
        """Create the controller; `run` scans the node.

        Args:
            options: options of the scans.
            state: locations of the records.
            node: name of the node and of its pool.
            addresses: source of the addresses of Nodes.
            publish: called with the devices after each scan, changed or not; must not raise.
            notify: called with each change; must not raise.
            clouds: facts from a cloud provider.
            host: the host to scan, None for this node.
            timing: clock and timers.

        Raises:
            SelectorError: an expression of the options cannot be compiled.
            InvalidValueError: the size is unknown.
        """
        options.selection.check()
        self._state, self._notify = state, notify
        self._host = host or LiveHost(options.sysfs, options.azure_size)
        node_addresses = NodeAddresses(addresses, node, timing.clock)
        self._scanner = NodeScanner(
            self._host,
            node_addresses,
            options.selection,
            options.hang_timeout_s,
            notify,
            state.run,
            clouds,
        )
        self._reporter = HealthReporter(publish, notify, timing.clock)
        self._clock, self._wakeup = timing.clock, Wakeup(timing)
        self._rescan_s, self._schedule = options.rescan_s, ScanSchedule(options.rescan_s)
        self._scan_lock = asyncio.Lock()
        self._scans = self._last_full_scan = 0  # numbers of the last scan and the last full scan
        self._open_records: RecordCache | None = None
        self._listening = asyncio.Event()

    async def run(self) -> None:
        """Watch the node until cancelled; may be called again afterwards.

        Raises:
            KernelError: the kernel's events cannot be received.
            StateError: inotify is not available.
            OSError: the records cannot be read, or no events can be received.
        """
        self._reporter.scan_began()
        with (
            RecordCache(self._state) as records,
            self._host.listening(self.request_scan, self._notify),
            closing(DeferredReader(records.filenos(), partial(self._on_records, records))),
        ):
            # A scan is due at once, because events before this point were not received.
            self._schedule = ScanSchedule(self._rescan_s)
            self._open_records = records
            self._listening.set()
            try:
                while True:
                    await self._wakeup.until(lambda: self._schedule.due)
                    await self._scan_if_due()
            finally:
                self._open_records = None
                self._listening.clear()

    async def devices(self, names: Collection[str]) -> Mapping[str, Device]:
        """Implement DeviceSource.

        Raises:
            DranetError: the node's addresses were never known.
            KernelError: the node cannot be scanned.
            StateError: a record cannot be read now.
            OSError: sysfs or the records cannot be read now.
        """
        if not self._reporter.snapshot.allocatable.keys() >= set(names):
            await self._full_scan()
        allocatable = self._reporter.snapshot.allocatable
        return {name: allocatable[name] for name in names if name in allocatable}

    def conflicts(self) -> Mapping[str, frozenset[str]]:
        """Implement NodeSource."""
        return self._reporter.snapshot.conflicts

    async def health(self, last: int | None) -> HealthReport:
        """Implement HealthSource."""
        return await self._reporter.health(last)

    # ------------------------------------------------------------------- schedule

    def request_scan(self) -> None:
        """Request a scan, after an event or a change of facts."""
        self._schedule.request(self._clock())
        self._wakeup.wake()

    def _on_records(self, records: RecordCache) -> None:
        records.read_changes()
        self._schedule.request_later(self._clock())
        self._wakeup.wake()

    # ------------------------------------------------------------------ scanning

    async def _scan_if_due(self) -> None:
        async with self._scan_lock:
            if self._schedule.due <= self._clock():
                with suppress(DranetError, OSError):  # _scan reports it and schedules a retry
                    await self._scan(full=False)

    async def _full_scan(self) -> None:
        """Run a full scan, unless one begins after this call."""
        next_scan = self._scans + 1
        async with self._scan_lock:
            if self._last_full_scan < next_scan:
                await self._scan(full=True)

    async def _scan(self, *, full: bool) -> None:
        records = await self._records()
        self._scans += 1
        self._reporter.scan_began()
        full = self._schedule.begin(self._clock()) or full
        try:
            snapshot = await self._scanner.scan(records, full=full)
        except (DranetError, OSError) as error:
            self._notify(notices.ScanFailed(error, self._schedule.failed(self._clock())))
            self._wakeup.wake()
            self._reporter.scan_failed(error)
            raise
        self._schedule.ended(self._clock(), full=full)
        if full:
            self._last_full_scan = self._scans
        self._reporter.publish(snapshot)

    async def _records(self) -> RecordCache:
        """Return the cache of records; wait until it is open."""
        while self._open_records is None:
            await self._listening.wait()
        return self._open_records
