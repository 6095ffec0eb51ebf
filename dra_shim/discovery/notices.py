"""Notices of the discovery controller."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from dranet_nri.component.notice import LogLine, LogNotice

MAX_NAMES: Final = 100  # per line: a runtime cuts lines at 16 KiB, and a name has up to 63 bytes


@dataclass(frozen=True, slots=True)
class DevicesChanged(LogNotice):
    """The devices to publish changed.

    Attributes:
        devices: number of published devices.
        rdma: number of those with RDMA.
        appeared: names of new devices.
        withdrawn: (name, reason) of devices that are not published any more.
    """

    log = LogLine("info", "devices")
    devices: int
    rdma: int
    appeared: tuple[str, ...]
    withdrawn: tuple[tuple[str, str], ...]

    def _facts(self) -> Mapping[str, object]:
        return {
            "devices": self.devices,
            "rdma": self.rdma,
            "appeared": list(self.appeared),
            "withdrawn": dict(self.withdrawn),
        }


@dataclass(frozen=True, slots=True)
class DevicesExcluded(LogNotice):
    """Hardware is excluded for a reason for which the previous scan did not exclude it.

    A withdrawn device is not reported again. Virtual devices come and go with pods: they are not
    named, and only the first scan reports how many the flags exclude.

    Attributes:
        reason: the reason; it begins with the interface's name if that is not the device's name.
        devices: sorted names of excluded devices that are PCI functions, or on one, or have RDMA.
        virtual: number of others; 0 after the first scan.
    """

    log = LogLine("info", "devices excluded")
    reason: str
    devices: tuple[str, ...]
    virtual: int = 0

    def _facts(self) -> Mapping[str, object]:
        return {
            "reason": self.reason,
            "devices": list(self.devices[:MAX_NAMES]),
            "more": max(0, len(self.devices) - MAX_NAMES),
            "virtual": self.virtual,
        }


@dataclass(frozen=True, slots=True)
class DeviceUnhealthy(LogNotice):
    """A device is unhealthy; it is tainted until it recovers."""

    log = LogLine("warning", "device unhealthy")
    device: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeviceRecovered(LogNotice):
    """A device is healthy again, or its health is not visible any more."""

    log = LogLine("info", "device healthy")
    device: str


@dataclass(frozen=True, slots=True)
class ScanFailed(LogNotice):
    """The scan of the node failed. Published devices stay published, and the scan is retried."""

    log = LogLine("error", "node scan failed", limited=True)
    error: Exception
    retry_s: float


@dataclass(frozen=True, slots=True)
class ScanHung(LogNotice):
    """A scan has not returned from the kernel for `seconds`. Other work continues.

    Attributes:
        step: current step of the scan.
    """

    log = LogLine("error", "node scan hangs in the kernel")
    step: str
    seconds: float

    def _facts(self) -> Mapping[str, object]:
        return {"step": self.step, "hung_s": self.seconds}


@dataclass(frozen=True, slots=True)
class EventSourceLost(LogNotice):
    """Events of one source are not received any more; periodic scans replace them."""

    log = LogLine("warning", "event source lost")
    source: str
    error: Exception


@dataclass(frozen=True, slots=True)
class PrivilegedFactsUnreadable(LogNotice):
    """The plugin's TCX file cannot be read. Its previous content remains valid."""

    log = LogLine("warning", "privileged facts of the plugin unreadable")
    error: Exception

    def _facts(self) -> Mapping[str, object]:
        remedy = "run plugin and shim of one version; the previous content stays valid"
        return {"reason": str(self.error), "remedy": remedy}


Notice = (
    DevicesChanged
    | DevicesExcluded
    | DeviceUnhealthy
    | DeviceRecovered
    | ScanFailed
    | ScanHung
    | EventSourceLost
    | PrivilegedFactsUnreadable
)
Notify = Callable[[Notice], None]
