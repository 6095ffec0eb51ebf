"""Rejections: devices or features that a server rejected, and fields that it dropped."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dra_shim.kubeapi import InvalidError
from dra_shim.pool import Feature
from dra_shim.resourceapi import SliceDevice
from dra_shim.resourceslice.layout import SliceContent

_DEVICE: Final = re.compile(r"spec\.devices\[(\d+)\](.*)")
_COUNTERS: Final = ("spec.sharedCounters", ".consumesCounters", ".basic.consumesCounters")
_ATTRIBUTE: Final = re.compile(r"(?:\.basic)?\.attributes\[([^]]*)\].*")
MAX_REASONS: Final = 3  # reported for one device
# Fields that a server without a feature drops. Of a list attribute it drops the values, and then
# rejects the attribute as empty.
_DROPPED: Final[Mapping[str, Feature]] = {
    "taints": Feature.TAINTS,
    "consumesCounters": Feature.COUNTERS,
    "sharedCounters": Feature.COUNTERS,
    "allowMultipleAllocations": Feature.SHARING,
    "requestPolicy": Feature.SHARING,
}


@dataclass(frozen=True, slots=True)
class Rejections:
    """Devices and features that a server rejected.

    Attributes:
        devices: name → reason.
        features: features that the server rejects.
    """

    devices: Mapping[str, str] = field(default_factory=dict)
    features: frozenset[Feature] = frozenset()

    def __bool__(self) -> bool:
        """Return whether there is any rejection."""
        return bool(self.devices or self.features)


def rejections_of(error: InvalidError, content: SliceContent) -> Rejections:
    """Return the rejections of a slice; empty if the error names neither device nor feature."""
    why: dict[str, list[str]] = {}
    features: set[Feature] = set()
    for cause in error.causes:
        found = _DEVICE.fullmatch(cause.field)
        inside = found[2] if found else cause.field
        index = int(found[1]) if found else len(content.devices)
        device = content.devices[index] if index < len(content.devices) else None
        if inside.startswith(_COUNTERS):
            features.add(Feature.COUNTERS)
        elif device and _is_list(device, inside):
            features.add(Feature.LISTS)
        elif device:
            text = f"{inside.lstrip('.')}: {cause.message}" if inside else cause.message
            why.setdefault(device.name, []).append(text)
    devices = {name: "; ".join(texts[:MAX_REASONS]) for name, texts in why.items()}
    return Rejections(devices, frozenset(features))


def _is_list(device: SliceDevice, place: str) -> bool:
    """Return whether a path in a device is an attribute that was sent as a list.

    A server without lists drops the values, and reports that the attribute has none.
    """
    found = _ATTRIBUTE.fullmatch(place)
    name = found[1] if found else ""
    return isinstance(dict(device.attributes).get(name), tuple)


def dropped_fields(sent: Any, stored: Any) -> frozenset[str]:  # noqa: ANN401 - whatever JSON may be
    """Return the names of fields that were sent and not stored; both specs are normalized."""
    if isinstance(sent, Mapping):
        inner = stored if isinstance(stored, Mapping) else {}
        missing = frozenset(name for name in sent if name not in inner)
        return missing.union(
            *(dropped_fields(sent[name], inner[name]) for name in sent.keys() & inner)
        )
    if isinstance(sent, list) and isinstance(stored, list):
        pairs = zip(sent, stored, strict=False)
        return frozenset().union(*(dropped_fields(one, other) for one, other in pairs))
    return frozenset()


def features_of_dropped(fields: Iterable[str]) -> frozenset[Feature]:
    """Return the features to which dropped fields belong."""
    return frozenset(_DROPPED[entry] for entry in fields if entry in _DROPPED)
