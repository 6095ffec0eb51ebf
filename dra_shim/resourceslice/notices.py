"""Notices of the ResourceSlice controller."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dra_shim.kubeapi import ApiError
from dra_shim.pool import Feature
from dranet_nri.component.notice import LogLine, LogNotice


@dataclass(frozen=True, slots=True)
class SlicesPublished(LogNotice):
    """The server has the node's current devices.

    Attributes:
        devices: number of devices.
        slices: number of slices with devices.
        writes: number of writes, 0 if the server was up to date.
    """

    devices: int
    slices: int
    writes: int

    def line(self) -> LogLine:
        """Return the log line; at debug level if nothing was written."""
        facts = {"devices": self.devices, "slices": self.slices}
        if not self.writes:
            return LogLine("debug", "published already", facts)
        return LogLine("info", "published", {**facts, "writes": self.writes})


@dataclass(frozen=True, slots=True)
class DeviceRefused(LogNotice):
    """The server rejects a device; the others are published.

    The device is omitted until it changes.
    """

    log = LogLine("error", "device rejected by the API server")
    device: str
    reason: str


@dataclass(frozen=True, slots=True)
class FeaturesMissing(LogNotice):
    """The server lacks features, so some fields or devices are not published; see pool.without.

    It is reported when the missing features change, with none when all are served.
    """

    features: frozenset[Feature]

    def line(self) -> LogLine:
        """Return the log line."""
        if not self.features:
            return LogLine("info", "API server supports all features again")
        return LogLine("warning", "API server lacks features", {"gates": sorted(self.features)})


@dataclass(frozen=True, slots=True)
class FieldsDropped(LogNotice):
    """The server dropped some fields of a slice; they are not written again."""

    log = LogLine("warning", "API server drops fields")
    name: str
    fields: frozenset[str]

    def _facts(self) -> Mapping[str, object]:
        return {"slice": self.name, "fields": sorted(self.fields)}


@dataclass(frozen=True, slots=True)
class SliceSyncFailed(LogNotice):
    """A request of the controller failed; it is retried after retry_s seconds."""

    log = LogLine("warning", "not published", limited=True)
    error: ApiError
    retry_s: float


Notice = SlicesPublished | DeviceRefused | FeaturesMissing | FieldsDropped | SliceSyncFailed
Notify = Callable[[Notice], None]
