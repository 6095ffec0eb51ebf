"""Feature probe: a dry run of a slice that shows the features of the server.

A server with a disabled feature gate drops fields silently. A list attribute without its values is
invalid, so such a server rejects the slice: the features named in the error are missing, and the
error has no information about others.
"""

from collections.abc import Collection, Mapping
from fractions import Fraction
from typing import Final

from dra_shim.kubeapi import Document, InvalidError, Object
from dra_shim.pool import FUNCTIONS, UNHEALTHY, Feature
from dra_shim.resourceapi import Capacity, CounterValue, Policy, SliceDevice, Taint
from dra_shim.resourceslice.documents import SlicePool, first_device, new_document, spec_of
from dra_shim.resourceslice.layout import SliceContent, named
from dranet_nri.inventory import NUMA_NODE
from dranet_nri.model import BANDWIDTH, DRIVER_NAME

_FIELDS: Final[Mapping[Feature, str]] = {
    Feature.TAINTS: "taints",
    Feature.COUNTERS: "consumesCounters",
    Feature.SHARING: "allowMultipleAllocations",
    Feature.LISTS: "attributes",
}
_SIGNS: Final = {**_FIELDS, Feature.SHARING: "capacity"}  # features that an error can name
_NAME: Final = "probe"


def probe_document(pool: SlicePool, features: Collection[Feature]) -> Object:
    """Return a slice with one device that uses these features."""
    capacity = Capacity(BANDWIDTH, Fraction(10**9), Policy(Fraction(), (), Fraction()))
    counter = CounterValue(_NAME, FUNCTIONS, Fraction(1))
    offer = SliceDevice(
        DRIVER_NAME,
        pool.node,
        _NAME,
        attributes=((NUMA_NODE, (0, 1)),) if Feature.LISTS in features else (),
        capacity=(capacity,) if Feature.SHARING in features else (),
        counters=(counter,) if Feature.COUNTERS in features else (),
        taints=(Taint(UNHEALTHY, "Probe"),) if Feature.TAINTS in features else (),
        shared=Feature.SHARING in features,
    )
    part = SliceContent(named(pool.node, _NAME), (offer,))
    return new_document(pool, part, spec_of(pool, part, 1, 1))


def missing_after(answer: Document, features: Collection[Feature]) -> frozenset[Feature]:
    """Return the features whose fields the server dropped."""
    body = first_device(answer)
    return frozenset(feature for feature in features if not body.get(_FIELDS[feature]))


def missing_by(error: InvalidError) -> frozenset[Feature]:
    """Return the features that an error of the server names; none for other errors."""
    fields = [cause.field for cause in error.causes]
    return frozenset(
        feature for feature, sign in _SIGNS.items() if any(f".{sign}" in field for field in fields)
    )
