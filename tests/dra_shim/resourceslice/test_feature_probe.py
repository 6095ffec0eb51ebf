"""Detection of a server's DRA features from the fields that it keeps of a slice."""

from dataclasses import replace

import pytest

from dra_shim.kubeapi import Cause, InvalidError
from dra_shim.pool import Feature
from dra_shim.resourceslice.documents import first_device
from dra_shim.resourceslice.feature_probe import dropped_features, probe_document, rejected_features
from tests.dra_shim.resourceslice.pools import POOL, parsed
from tests.fakes.slice_rules import FEATURES, settled

ALL = frozenset(Feature)
GATES = {
    Feature.TAINTS: "taints",
    Feature.COUNTERS: "counters",
    Feature.SHARING: "sharing",
}


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta1"])
def test_probe_uses_every_feature(version: str) -> None:
    pool = replace(POOL, version=version)
    document = probe_document(pool, ALL)

    assert dropped_features(document, ALL) == frozenset()
    assert len(first_device(document)) >= len(Feature)
    shown = {**document, "apiVersion": f"resource.k8s.io/{version}"}
    assert parsed(shown).name == "node-1-dra.net-probe"


@pytest.mark.parametrize("off", list(GATES))
def test_feature_dropped_by_the_server_is_missing(off: Feature) -> None:
    document = probe_document(POOL, ALL)
    spec = document["spec"]
    assert isinstance(spec, dict)
    stored = settled(spec, None, frozenset(FEATURES) - {GATES[off]}, "now")

    assert dropped_features({**document, "spec": stored}, ALL) == {off}


def test_server_that_drops_everything_has_no_feature() -> None:
    assert dropped_features({}, ALL) == frozenset(Feature)


@pytest.mark.parametrize(
    ("field", "missing"),
    [
        ("spec.devices[0].consumesCounters[0].counterSet", {Feature.COUNTERS}),
        ("spec.devices[0].basic.taints[0].effect", {Feature.TAINTS}),
        ("spec.devices[0].capacity[dra.net/bandwidth].requestPolicy", {Feature.SHARING}),
        ("spec.nodeName", set()),
    ],
)
def test_feature_refused_by_the_server_is_missing(field: str, missing: set[Feature]) -> None:
    error = InvalidError("probe", "no", causes=[Cause(field, "no")])

    assert rejected_features(error) == missing
