"""Health report: the health of the published devices, as the kubelet gets it."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DeviceHealth:
    """Health of one device.

    Attributes:
        healthy: None where unknown.
        message: why, "" where there is nothing to say.
    """

    pool: str
    device: str
    healthy: bool | None
    message: str = ""


@dataclass(frozen=True, slots=True)
class HealthReport:
    """Health of all published devices; a changed report has a new number."""

    number: int
    devices: tuple[DeviceHealth, ...]


class HealthSource(Protocol):
    """Source of the devices' health."""

    async def health(self, seen: int | None) -> HealthReport:
        """Return the current report; while its number is `seen`, wait for the next."""
