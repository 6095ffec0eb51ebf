"""Events of the discovery controller."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DevicesChanged:
    """The devices to publish changed.

    Attributes:
        devices: how many there are now.
        rdma: how many of them have RDMA.
        appeared: their names.
        withdrawn: (name, why) of those that are offered no longer.
    """

    devices: int
    rdma: int
    appeared: tuple[str, ...]
    withdrawn: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class DevicesExcluded:
    """Devices are withheld for one reason: hardware that the previous scan did not withhold for it.

    A withdrawal is not reported again. Virtual devices come and go with pods: none is named, and
    the first scan reports how many the flags drop.

    Attributes:
        reason: why; it begins with the interface's name where that is not the device's.
        devices: names of those that are PCI functions, or on one, or have RDMA; sorted.
        virtual: how many others; 0 after the first scan.
    """

    reason: str
    devices: tuple[str, ...]
    virtual: int = 0


@dataclass(frozen=True, slots=True)
class DeviceUnhealthy:
    """A device is not well; it is tainted until it recovers."""

    device: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeviceRecovered:
    """A device is healthy again, or its health is not visible any more."""

    device: str


@dataclass(frozen=True, slots=True)
class ScanFailed:
    """The scan of the node failed. Published devices stay published, and the scan is retried."""

    error: Exception
    retry_s: float


@dataclass(frozen=True, slots=True)
class ScanHung:
    """A scan has taken so many seconds; the kernel keeps its thread. It blocks nothing else.

    Attributes:
        doing: what the thread is at.
    """

    doing: str
    seconds: float


@dataclass(frozen=True, slots=True)
class EventSourceLost:
    """Events of one source are not received any more; periodic scans replace them."""

    source: str
    error: Exception


@dataclass(frozen=True, slots=True)
class TcxFileUnreadable:
    """The plugin's TCX file cannot be read. Its previous content counts."""

    error: Exception


Notice = (
    DevicesChanged
    | DevicesExcluded
    | DeviceUnhealthy
    | DeviceRecovered
    | ScanFailed
    | ScanHung
    | EventSourceLost
    | TcxFileUnreadable
)
Notify = Callable[[Notice], None]
