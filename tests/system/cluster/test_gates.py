"""Slices under the server's feature gates: every field of a driver, and lists behind their gate."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.cluster.api import Api, ApiError, Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.workload import SLICES, slice_of

SHARED = {
    "name": "shared",
    "allowMultipleAllocations": True,
    "capacity": {
        "bandwidth": {
            "value": "100G",
            "requestPolicy": {
                "default": "1G",
                "validRange": {"min": "1G", "max": "100G", "step": "1G"},
            },
        }
    },
}
UNHEALTHY = {"name": "unhealthy", "taints": [{"key": "dra.net/down", "effect": "NoExecute"}]}
FUNCTION = {
    "name": "vf0",
    "consumesCounters": [{"counterSet": "pf0", "counters": {"functions": {"value": "1"}}}],
}
COUNTERS = [{"name": "pf0", "counters": {"functions": {"value": "2"}}}]
LISTED = {"name": "nic0", "attributes": {"dra.net/numaNodes": {"ints": [0, 1]}}}


@pytest.fixture(scope="module")
def lists(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane with the gate for attributes that are lists."""
    directory = tmp_path_factory.mktemp("lists")
    with ControlPlane(programs, directory, {"DRAListTypeAttributes": True}) as plane:
        yield plane


def test_server_keeps_device_fields_with_default_gates(cluster: ControlPlane) -> None:
    api = cluster.api()
    devices = [SHARED, UNHEALTHY, FUNCTION]

    stored = [
        _publish(api, "devices", {"devices": devices})["devices"],
        _publish(api, "counters", {"sharedCounters": COUNTERS})["sharedCounters"],
    ]

    added = stored[0][1]["taints"][0].pop("timeAdded")  # the server's own
    assert added
    assert stored == [devices, COUNTERS]


def test_list_attribute_needs_its_feature_gate(cluster: ControlPlane, lists: ControlPlane) -> None:
    with pytest.raises(ApiError, match="must specify one of") as refusal:
        _publish(cluster.api(), "listed", {"devices": [LISTED]})

    assert refusal.value.status == 422
    assert _publish(lists.api(), "listed", {"devices": [LISTED]})["devices"] == [LISTED]


def _publish(api: Api, name: str, spec: dict[str, Any]) -> Object:
    """Create a slice and return its spec as the server keeps it; the slice is gone then."""
    document = slice_of(name, spec)
    stored: Object = api.create(SLICES, document)["spec"]
    api.delete(f"{SLICES}/{name}")
    return stored
