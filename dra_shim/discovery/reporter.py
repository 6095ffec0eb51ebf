"""Snapshot reporter: differences between snapshots for the publisher, the log and the kubelet."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from dra_shim.discovery.notices import (
    DeviceRecovered,
    DevicesChanged,
    DevicesExcluded,
    DeviceUnhealthy,
    Notify,
)
from dra_shim.discovery.snapshot import NodeSnapshot
from dra_shim.pool import DeviceHealth, DriverResources, HealthReport

DOUBT_S: Final = 120.0  # seconds without a successful scan, after which health is unknown


class HealthReporter:
    """Reporter of the results of scans. A HealthSource.

    Attributes:
        view: snapshot of the last successful scan.
    """

    def __init__(
        self, offer: Callable[[DriverResources], None], notify: Notify, now: float
    ) -> None:
        """Start with an unknown node.

        Args:
            offer: called with the devices after each scan, changed or not; must not raise.
            notify: called with each change; must not raise.
            now: monotonic seconds.
        """
        self.view = NodeSnapshot()
        self._offer = offer
        self._notify = notify
        self._scanned_s = now  # time of the last successful scan
        self._first = True
        self._report = HealthReport(0, ())
        self._reported = asyncio.Event()

    async def health(self, last: int | None) -> HealthReport:
        """Implement HealthSource."""
        while self._report.number == last:
            await self._reported.wait()
        return self._report

    def publish(self, view: NodeSnapshot, now: float) -> None:
        """Publish the devices of a scan, and report the differences to the previous one."""
        self._scanned_s = now
        before, self.view = self.view, view
        self._offer(view.resources)
        self._report_devices(before, view)
        self._report_excluded(before, view)
        self._report_unhealthy(before.unhealthy, view.unhealthy)
        self._report_health(view.health)

    def scan_failed(self, error: Exception, now: float) -> None:
        """Report unknown health if scans have failed for too long; devices stay published."""
        if now - self._scanned_s >= DOUBT_S:
            message = f"the node cannot be scanned: {error}"
            self._report_health(
                tuple(
                    replace(device_health, healthy=None, message=message)
                    for device_health in self.view.health
                )
            )

    def _report_health(self, health: tuple[DeviceHealth, ...]) -> None:
        if health != self._report.devices:
            self._report = HealthReport(self._report.number + 1, health)
            self._reported.set()
            self._reported = asyncio.Event()

    def _report_devices(self, before: NodeSnapshot, now: NodeSnapshot) -> None:
        appeared = tuple(now.devices.keys() - before.devices.keys())
        reasons = dict(now.excluded)
        gone = sorted(before.devices.keys() - now.devices.keys())
        if appeared or gone:
            withdrawn = tuple((name, reasons.get(name, "missing on the node")) for name in gone)
            self._notify(
                DevicesChanged(len(now.devices), now.rdma, tuple(sorted(appeared)), withdrawn)
            )

    def _report_excluded(self, before: NodeSnapshot, now: NodeSnapshot) -> None:
        excluded = frozenset(before.excluded)
        names: dict[str, list[str]] = defaultdict(list)
        for name, why in now.excluded:
            withdrawn = name in before.devices  # reported as withdrawn
            if name in now.hardware and (name, why) not in excluded and not withdrawn:
                names[why].append(name)
        virtual = now.dropped if self._first else {}
        self._first = False
        for why in sorted(names.keys() | virtual.keys()):
            self._notify(DevicesExcluded(why, tuple(names[why]), virtual.get(why, 0)))

    def _report_unhealthy(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        for device, reason in now.items():
            if before.get(device) != reason:
                self._notify(DeviceUnhealthy(device, reason))
        for device in before.keys() - now.keys():
            self._notify(DeviceRecovered(device))
