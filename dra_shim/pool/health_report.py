"""Health report: health of the published devices, in the form for the kubelet."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """Health of one device.

    Attributes:
        healthy: None if unknown.
        message: reason, "" if healthy.
    """

    pool: str
    device: str
    healthy: bool | None
    message: str = ""


@dataclass(frozen=True, slots=True)
class HealthReport:
    """Health of all published devices; each changed report has a new number."""

    number: int
    devices: tuple[DeviceHealth, ...]


class HealthSource(Protocol):
    """Source of the health of devices."""

    async def health(self, last: int | None) -> HealthReport:
        """Return the current report; if its number is `last`, wait for the next one."""
