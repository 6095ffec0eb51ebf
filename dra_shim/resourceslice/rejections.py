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
MAX_WHY: Final = 3  # reasons reported for one device
# Fields that a server without a feature drops. It drops the values of a list, and rejects the rest.
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


def rejections_of(error: InvalidError, part: SliceContent) -> Rejections:
    """Return the rejections of a slice; none if the error names no part of it."""
    why: dict[str, list[str]] = {}
    features: set[Feature] = set()
    for cause in error.causes:
        found = _DEVICE.fullmatch(cause.field)
        inside = found[2] if found else cause.field
        offer = part.offers[int(found[1])] if found and int(found[1]) < len(part.offers) else None
        if inside.startswith(_COUNTERS):
            features.add(Feature.COUNTERS)
        elif offer and _is_list(offer, inside):
            features.add(Feature.LISTS)
        elif offer:
            text = f"{inside.lstrip('.')}: {cause.message}" if inside else cause.message
            why.setdefault(offer.name, []).append(text)
    devices = {name: "; ".join(texts[:MAX_WHY]) for name, texts in why.items()}
    return Rejections(devices, frozenset(features))


def _is_list(offer: SliceDevice, place: str) -> bool:
    """Return whether a path in a device is an attribute that was sent as a list.

    A server without lists drops the values, and reports that the attribute has none.
    """
    found = _ATTRIBUTE.fullmatch(place)
    name = found[1] if found else ""
    return isinstance(dict(offer.attributes).get(name), tuple)


def dropped(sent: Any, kept: Any) -> frozenset[str]:  # noqa: ANN401 - whatever JSON may be
    """Return the names of fields that were sent and not kept; both specs are normalized."""
    if isinstance(sent, Mapping):
        inner = kept if isinstance(kept, Mapping) else {}
        missing = frozenset(name for name in sent if name not in inner)
        return missing.union(*(dropped(sent[name], inner[name]) for name in sent.keys() & inner))
    if isinstance(sent, list) and isinstance(kept, list):
        pairs = zip(sent, kept, strict=False)
        return frozenset().union(*(dropped(one, other) for one, other in pairs))
    return frozenset()


def missing_with(fields: Iterable[str]) -> frozenset[Feature]:
    """Return the features whose absence explains these dropped fields."""
    return frozenset(_DROPPED[entry] for entry in fields if entry in _DROPPED)
