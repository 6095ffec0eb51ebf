"""The discovery controller: publishes devices, answers Prepare, and reports health to the kubelet.

Rules:
1. An event causes a scan, and the scan reads the state. The event loop never waits for the kernel.
2. Published devices stay published while the node cannot be scanned; after a while their health is
   unknown everywhere.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from dra_shim.checkpoint.cache import RecordCache
from dra_shim.discovery import notices
from dra_shim.discovery.host import Host, LiveHost
from dra_shim.discovery.node_addresses import AddressSource, NodeAddresses
from dra_shim.discovery.reporter import HealthReporter
from dra_shim.discovery.scanner import CloudFacts, NoCloud, NodeScanner
from dra_shim.discovery.schedule import ScanSchedule
from dra_shim.discovery.snapshot import DeviceSelection
from dra_shim.pool import DriverResources, HealthReport
from dra_shim.settings.common import StatePaths
from dranet_nri.component.clock import REAL, LoopClock, Wakeup
from dranet_nri.component.deferred import DeferredReader
from dranet_nri.errors import DranetError
from dranet_nri.facts.sysfs import SYSFS
from dranet_nri.model import Device

RESCAN_S: Final = 60.0  # dranet's --inventory-max-poll-interval; InfiniBand announces no port state
HUNG_S: Final = 10.0  # a scan takes a fraction of a second


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Options of a node's scans.

    Attributes:
        choice: which devices are offered.
        azure_size: Azure's name of this node's size, "" if unknown.
        sysfs: where a sysfs of this network namespace is mounted.
        rescan_s: seconds between full scans.
        patience_s: seconds of a scan after which it is reported as hung.
    """

    choice: DeviceSelection = field(default_factory=DeviceSelection)
    azure_size: str = ""
    sysfs: Path = SYSFS
    rescan_s: float = RESCAN_S
    patience_s: float = HUNG_S


class NodeDevices:
    """Watches the node: a NodeSource and a HealthSource."""

    def __init__(
        self,
        options: NodeOptions,
        state: StatePaths,
        node: str,
        addresses: AddressSource,
        offer: Callable[[DriverResources], None],
        notify: notices.Notify,
        *,
        host: Host | None = None,
        clouds: CloudFacts | None = None,
        timing: LoopClock = REAL,
    ) -> None:
        """Prepare; run does the work.

        Args:
            options: of the scans.
            state: where records are.
            node: its name, and its pool's.
            addresses: source of the addresses of Nodes.
            offer: called with the devices after each scan, changed or not; must not raise.
            notify: called with each change; must not raise.
            host: to scan, None for this node.
            clouds: what a cloud provider knows of devices, None for nothing.
            timing: what it goes by.

        Raises:
            SelectorError: an expression of the options cannot be compiled.
            InvalidValueError: nothing is known of the size.
        """
        options.choice.check()
        self._state, self._notify = state, notify
        self._host = host or LiveHost(options.sysfs, options.azure_size)
        reach = NodeAddresses(addresses, node, timing.clock)
        self._eyes = NodeScanner(
            self._host, reach, options.choice, options.patience_s, notify, state.run,
            clouds or NoCloud(),
        )  # fmt: skip
        self._teller = HealthReporter(offer, notify, timing.clock())
        self._clock, self._alarm = timing.clock, Wakeup(timing)
        self._rescan_s, self._pace = options.rescan_s, ScanSchedule(options.rescan_s)
        self._turn = asyncio.Lock()
        self._begun = self._whole = 0  # number of scans, and of the last full scan
        self._held: RecordCache | None = None
        self._listening = asyncio.Event()

    async def run(self) -> None:
        """Watch until cancelled; may be called again when it ended.

        Raises:
            KernelError: the kernel's events cannot be received.
            StateError: inotify is not to be had.
            OSError: the records cannot be read, or no events can be received.
        """
        with (
            RecordCache(self._state) as held,
            self._host.listening(self._stir, self._notify),
            ExitStack() as stack,
        ):
            for fileno in held.filenos():
                stack.enter_context(closing(DeferredReader(fileno, partial(self._recorded, held))))
            self._pace = ScanSchedule(self._rescan_s)  # earlier events were not received
            self._held = held
            self._listening.set()
            try:
                while True:
                    await self._alarm.until(lambda: self._pace.due)
                    await self._look_if_due()
            finally:
                self._held = None
                self._listening.clear()

    async def devices(self, names: Collection[str]) -> Mapping[str, Device]:
        """See DeviceSource.

        Raises:
            DranetError: the node's addresses were never known.
            KernelError: the node cannot be scanned.
            StateError: a record cannot be read now.
            OSError: sysfs or the records cannot be read now.
        """
        if not self._teller.view.there.keys() >= set(names):
            await self._look_again()
        known = self._teller.view.there
        return {name: known[name] for name in names if name in known}

    def rivals(self) -> Mapping[str, frozenset[str]]:
        """See NodeSource."""
        return self._teller.view.rivals

    async def health(self, seen: int | None) -> HealthReport:
        """See HealthSource."""
        return await self._teller.health(seen)

    # ------------------------------------------------------------------- when

    def rescan(self) -> None:
        """Schedule a scan soon; what a provider knows has changed."""
        self._stir()

    def _stir(self) -> None:
        """Schedule a scan soon."""
        self._pace.news(self._clock())
        self._alarm.wake()

    def _recorded(self, held: RecordCache) -> None:
        held.take_in()
        self._stir()

    # ------------------------------------------------------------------ scanning

    async def _look_if_due(self) -> None:
        async with self._turn:
            if self._pace.due <= self._clock():
                with suppress(DranetError, OSError):  # reported by _look, which schedules a retry
                    await self._look(whole=False)

    async def _look_again(self) -> None:
        """Schedule a full scan, unless one begins after now."""
        wanted = self._begun + 1
        async with self._turn:
            if self._whole < wanted:
                await self._look(whole=True)

    async def _look(self, *, whole: bool) -> None:
        held = await self._records()
        self._begun += 1
        whole = self._pace.begin(self._clock()) or whole
        try:
            view = await self._eyes.see(held, whole=whole)
        except (DranetError, OSError) as error:
            self._notify(notices.ScanFailed(error, self._pace.failed(self._clock())))
            self._alarm.wake()
            self._teller.doubt(error, self._clock())
            raise
        now = self._clock()
        self._pace.ended(now, whole=whole)
        if whole:
            self._whole = self._begun
        self._teller.show(view, now)

    async def _records(self) -> RecordCache:
        """Return the records; wait until they are open."""
        while self._held is None:
            await self._listening.wait()
        return self._held
