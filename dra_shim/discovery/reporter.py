"""Snapshot reporter: compares scans and notifies the publisher, the log and the kubelet."""

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

DOUBT_S: Final = 120.0  # without a successful scan; then health is unknown


class HealthReporter:
    """Snapshot reporter: publishes, notifies and reports the result of scans. A HealthSource.

    Attributes:
        view: the snapshot of the last scan that succeeded.
    """

    def __init__(
        self, offer: Callable[[DriverResources], None], notify: Notify, now: float
    ) -> None:
        """Begin with a node of which nothing is known.

        Args:
            offer: called with the devices after each scan, changed or not; must not raise.
            notify: called with each change; must not raise.
            now: the time, in seconds that only go up.
        """
        self.view = NodeSnapshot()
        self._offer = offer
        self._notify = notify
        self._seen_s = now  # time of the last successful scan
        self._first = True
        self._report = HealthReport(0, ())
        self._reported = asyncio.Event()

    async def health(self, seen: int | None) -> HealthReport:
        """See HealthSource."""
        while self._report.number == seen:
            await self._reported.wait()
        return self._report

    def show(self, view: NodeSnapshot, now: float) -> None:
        """Publish the devices of a scan, and report the differences."""
        self._seen_s = now
        before, self.view = self.view, view
        self._offer(view.resources)
        self._tell_devices(before, view)
        self._tell_left_out(before, view)
        self._tell_ills(before.ills, view.ills)
        self._report_health(view.health)

    def doubt(self, error: Exception, now: float) -> None:
        """Report health as unknown after failed scans for long; published devices stay."""
        if now - self._seen_s >= DOUBT_S:
            message = f"the node cannot be looked at: {error}"
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

    def _tell_devices(self, before: NodeSnapshot, now: NodeSnapshot) -> None:
        appeared = tuple(now.devices.keys() - before.devices.keys())
        reasons = dict(now.left_out)
        gone = sorted(before.devices.keys() - now.devices.keys())
        if appeared or gone:
            withdrawn = tuple((name, reasons.get(name, "gone from the node")) for name in gone)
            self._notify(
                DevicesChanged(len(now.devices), now.rdma, tuple(sorted(appeared)), withdrawn)
            )

    def _tell_left_out(self, before: NodeSnapshot, now: NodeSnapshot) -> None:
        known = frozenset(before.left_out)
        names: dict[str, list[str]] = defaultdict(list)
        for name, why in now.left_out:
            withdrawn = name in before.devices  # and reported as withdrawn
            if name in now.hardware and (name, why) not in known and not withdrawn:
                names[why].append(name)
        virtual = now.dropped if self._first else {}
        self._first = False
        for why in sorted(names.keys() | virtual.keys()):
            self._notify(DevicesExcluded(why, tuple(names[why]), virtual.get(why, 0)))

    def _tell_ills(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        for device, reason in now.items():
            if before.get(device) != reason:
                self._notify(DeviceUnhealthy(device, reason))
        for device in before.keys() - now.keys():
            self._notify(DeviceRecovered(device))
