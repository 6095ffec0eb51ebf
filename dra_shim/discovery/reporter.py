"""Snapshot reporter: devices for ResourceSlices, changes for the log, health for the kubelet."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from math import inf
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
from dranet_nri.component.replace import replace

UNKNOWN_HEALTH_S: Final = 120.0  # seconds of scans without success, after which health is unknown
_NOT_ENDED: Final = "a scan has not ended; see the log of dra-shim"


class HealthReporter:
    """Reporter of the results of scans. A HealthSource.

    Attributes:
        snapshot: snapshot of the last successful scan.
    """

    def __init__(
        self,
        publish: Callable[[DriverResources], None],
        notify: Notify,
        clock: Callable[[], float],
    ) -> None:
        """Start with an empty snapshot.

        Args:
            publish: called with the devices after each scan, changed or not; must not raise.
            notify: called with each change; must not raise.
            clock: monotonic seconds.
        """
        self.snapshot = NodeSnapshot()
        self._publish = publish
        self._notify = notify
        self._clock = clock
        self._unscanned_since = inf  # begin of the first scan since the last success
        self._error = _NOT_ENDED
        self._first = True
        self._report = HealthReport(0, ())
        self._reported = asyncio.Event()

    async def health(self, last: int | None) -> HealthReport:
        """Implement HealthSource; health is unknown if scans fail or hang for too long."""
        if self._clock() - self._unscanned_since >= UNKNOWN_HEALTH_S:
            self._report_unknown()
        while self._report.number == last:
            await self._reported.wait()
        return self._report

    def scan_began(self) -> None:
        """Record that a scan was due, which may never end."""
        self._unscanned_since = min(self._unscanned_since, self._clock())

    def scan_failed(self, error: Exception) -> None:
        """Record why the scan failed; devices stay published."""
        self._error = str(error)

    def publish(self, snapshot: NodeSnapshot) -> None:
        """Publish the devices of a scan, and report the differences to the previous one."""
        self._unscanned_since, self._error = inf, _NOT_ENDED
        previous, self.snapshot = self.snapshot, snapshot
        self._publish(snapshot.resources)
        self._report_devices(previous, snapshot)
        self._report_excluded(previous, snapshot)
        self._report_unhealthy(previous.unhealthy, snapshot.unhealthy)
        self._report_health(snapshot.health)

    def _report_unknown(self) -> None:
        message = f"the node cannot be scanned: {self._error}"
        self._report_health(
            tuple(
                replace(device_health, healthy=None, message=message)
                for device_health in self.snapshot.health
            )
        )

    def _report_health(self, health: tuple[DeviceHealth, ...]) -> None:
        if health != self._report.devices:
            self._report = HealthReport(self._report.number + 1, health)
            self._reported.set()
            self._reported = asyncio.Event()

    def _report_devices(self, previous: NodeSnapshot, now: NodeSnapshot) -> None:
        appeared = tuple(now.devices.keys() - previous.devices.keys())
        reasons = dict(now.excluded)
        withdrawn_names = sorted(previous.devices.keys() - now.devices.keys())
        if appeared or withdrawn_names:
            withdrawn = tuple(
                (name, reasons.get(name, "missing on the node")) for name in withdrawn_names
            )
            self._notify(
                DevicesChanged(len(now.devices), now.rdma, tuple(sorted(appeared)), withdrawn)
            )

    def _report_excluded(self, previous: NodeSnapshot, now: NodeSnapshot) -> None:
        excluded = frozenset(previous.excluded)
        names: dict[str, list[str]] = defaultdict(list)
        for name, reason in now.excluded:
            withdrawn = name in previous.devices  # reported as withdrawn
            if name in now.hardware and (name, reason) not in excluded and not withdrawn:
                names[reason].append(name)
        virtual = now.dropped if self._first else {}
        self._first = False
        for reason in sorted(names.keys() | virtual.keys()):
            self._notify(DevicesExcluded(reason, tuple(names[reason]), virtual.get(reason, 0)))

    def _report_unhealthy(self, previous: Mapping[str, str], now: Mapping[str, str]) -> None:
        for device, reason in now.items():
            if previous.get(device) != reason:
                self._notify(DeviceUnhealthy(device, reason))
        for device in previous.keys() - now.keys():
            self._notify(DeviceRecovered(device))
