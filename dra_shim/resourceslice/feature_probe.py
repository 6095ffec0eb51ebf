"""Feature probe: a dry run of a slice that shows the features of the server.

A server with a disabled feature gate drops fields silently. A list attribute without its values is
invalid, so such a server rejects the slice. Then the features that the error names are missing, and
nothing is known about the others.
"""

from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Final

from dra_shim.kubeapi import Document, InvalidError, Object
from dra_shim.pool import FUNCTIONS, UNHEALTHY, Feature
from dra_shim.resourceapi import Capacity, CounterValue, Policy, SliceDevice, Taint
from dra_shim.resourceslice.documents import SlicePool, first_device, new_document, spec_of
from dra_shim.resourceslice.layout import SliceContent, object_name
from dranet_nri.inventory import NUMA_NODE
from dranet_nri.model import BANDWIDTH, DRIVER_NAME

_FIELDS: Final[Mapping[Feature, str]] = {
    Feature.TAINTS: "taints",
    Feature.COUNTERS: "consumesCounters",
    Feature.SHARING: "allowMultipleAllocations",
    Feature.LISTS: "attributes",
}
_ERROR_FIELDS: Final = {**_FIELDS, Feature.SHARING: "capacity"}  # as in errors of the server
_NAME: Final = "probe"


def probe_document(pool: SlicePool, features: Collection[Feature]) -> Object:
    """Return a slice with one device that uses these features."""
    capacity = Capacity(BANDWIDTH, Fraction(10**9), Policy(Fraction(), (), Fraction()))
    counter = CounterValue(_NAME, FUNCTIONS, Fraction(1))
    device = SliceDevice(
        DRIVER_NAME,
        pool.node,
        _NAME,
        attributes=((NUMA_NODE, (0, 1)),) if Feature.LISTS in features else (),
        capacity=(capacity,) if Feature.SHARING in features else (),
        counters=(counter,) if Feature.COUNTERS in features else (),
        taints=(Taint(UNHEALTHY, "Probe"),) if Feature.TAINTS in features else (),
        shared=Feature.SHARING in features,
    )
    content = SliceContent(object_name(pool.node, _NAME), (device,))
    return new_document(pool, content, spec_of(pool, content, 1, 1))


def dropped_features(answer: Document, features: Collection[Feature]) -> frozenset[Feature]:
    """Return the features whose fields the server dropped."""
    body = first_device(answer)
    return frozenset(feature for feature in features if not body.get(_FIELDS[feature]))


def rejected_features(error: InvalidError) -> frozenset[Feature]:
    """Return the features that an error of the server names; none for other errors."""
    fields = [cause.field for cause in error.causes]
    return frozenset(
        feature
        for feature, name in _ERROR_FIELDS.items()
        if any(f".{name}" in field for field in fields)
    )
