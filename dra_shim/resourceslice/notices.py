"""Events of the ResourceSlice controller."""

from collections.abc import Callable
from dataclasses import dataclass

from dra_shim.kubeapi import ApiError
from dra_shim.pool import Feature


@dataclass(frozen=True, slots=True)
class SlicesPublished:
    """The server has the node's current devices.

    Attributes:
        devices: how many.
        slices: how many hold them.
        writes: how many it took, 0 where all was there.
    """

    devices: int
    slices: int
    writes: int


@dataclass(frozen=True, slots=True)
class DeviceRefused:
    """The server does not take a device; the others are published.

    It is left out until something about it changes.
    """

    device: str
    reason: str


@dataclass(frozen=True, slots=True)
class FeaturesMissing:
    """The server lacks features; what needs them is not published: see pool.without.

    It is reported when the missing ones change; none when all have come.
    """

    features: frozenset[Feature]


@dataclass(frozen=True, slots=True)
class FieldsDropped:
    """The server did not keep some fields of a slice; it is left at that."""

    name: str
    fields: frozenset[str]


@dataclass(frozen=True, slots=True)
class SliceSyncFailed:
    """Something failed, and is tried again after that many seconds."""

    error: ApiError
    retry_s: float


Notice = SlicesPublished | DeviceRefused | FeaturesMissing | FieldsDropped | SliceSyncFailed
Notify = Callable[[Notice], None]
