"""Claims as the API server gives them: what is read, what is passed over, what is refused."""

from fractions import Fraction
from typing import Any

import pytest

from dra_shim.resourceapi import AllocatedClaim, Consumer, Result, read_allocated
from dranet_nri.config import ConfigEntry, ConfigSource
from dranet_nri.errors import ConfigError
from dranet_nri.model import ObjectRef
from tests.fakes.cluster import Document, claim_document, config, result, user

REF = ObjectRef("ai", "nics", "u1")


def broken_by(document: Document) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        read_allocated(document)
    return caught.value.violations


def test_own_devices_are_read_in_order() -> None:
    consumed = {"dra.net/bandwidth": "20G", "dra.net/none": None}
    document = claim_document(
        "nics",
        "u1",
        [
            result("a", "nic/fast", shareID="5a", adminAccess=False, consumedCapacity=consumed),
            result("gpu0", "gpu", driver="gpu.example.com", consumedCapacity={"odd": "1!"}),
            result("b", "look", adminAccess=True),
        ],
        [
            user("train", "p1"),
            user("gang", "g1", apiGroup="scheduling.k8s.io", resource="podgroups"),
        ],
        annotations={"resource.kubernetes.io/pod-claim-name": "fast", "other": "x"},
    )

    claim = read_allocated(document)

    assert claim == AllocatedClaim(
        REF,
        allocated=True,
        results=(
            Result(
                "nic/fast",
                ("dra.net", "node-1", "a"),
                "5a",
                consumed=(("dra.net/bandwidth", Fraction(20 * 10**9)),),
            ),
            Result("look", ("dra.net", "node-1", "b"), admin_access=True),
        ),
        consumers=(
            Consumer("pods", "train", "p1"),
            Consumer("podgroups.scheduling.k8s.io", "gang", "g1"),
        ),
        pod_claim_name="fast",
    )
    assert list(map(str, claim.consumers)) == ["train", "podgroups.scheduling.k8s.io/gang"]


def test_own_parameters_are_read_with_their_path() -> None:
    configs = [
        config({"a": 1}, source="FromClass", driver="gpu.example.com"),
        config({"interface": {"mtu": 9000}}, "nic", source="FromClass"),
        config({"b": 2}, driver="gpu.example.com"),
        {"source": "FromClaim", "requests": None},
        config({"interface": {"mtu": 4000}}, "nic/fast", "look"),
        {"source": "FromClaim", "opaque": {"driver": "dra.net", "parameters": {}}},
        {"source": "FromClaim", "opaque": {"driver": "dra.net"}},
        {"source": "FromClaim", "opaque": {"driver": "dra.net", "parameters": None}},
    ]

    claim = read_allocated(claim_document("nics", "u1", [], [], configs))

    assert claim.configs == (
        ConfigEntry(
            ConfigSource.CLASS,
            "dra.net",
            {"interface": {"mtu": 9000}},
            ("nic",),
            "class spec.config[1].opaque.parameters",
        ),
        ConfigEntry(
            ConfigSource.CLAIM,
            "dra.net",
            {"interface": {"mtu": 4000}},
            ("nic/fast", "look"),
            "claim spec.devices.config[2].opaque.parameters",
        ),
        ConfigEntry(
            ConfigSource.CLAIM, "dra.net", {}, (), "claim spec.devices.config[3].opaque.parameters"
        ),
    )


@pytest.mark.parametrize(
    ("status", "allocated"),
    [
        (None, False),
        ({}, False),
        ({"allocation": None}, False),
        ({"allocation": {}}, True),
        ({"allocation": {"devices": {"results": None, "config": None}}}, True),
    ],
)
def test_claim_without_allocation_is_read(status: Any, allocated: bool) -> None:  # noqa: FBT001 a case
    document = {**claim_document("nics", "u1", [], []), "status": status}

    assert read_allocated(document) == AllocatedClaim(REF, allocated)


def test_malformed_object_is_refused_with_its_path() -> None:
    document = claim_document(
        "nics",
        "u/1",
        [{**result("a"), "request": None}, result("a", pool=3, consumedCapacity={"x": "1!"})],
        [{"resource": "pods", "uid": "p1"}],
        [
            config("text"),
            {"source": "FromSpace", "opaque": {}},
            {"opaque": {}},
            config({}, 4),  # type: ignore[arg-type]
        ],
    )
    del document["metadata"]["name"]

    found = broken_by(document)

    config_path = "status.allocation.devices.config"
    assert [line.split(": ")[0] for line in found] == [
        "metadata",
        "metadata.uid",
        "status.allocation.devices.results[0]",
        "status.allocation.devices.results[1].pool",
        "status.allocation.devices.results[1].consumedCapacity.x",
        f"{config_path}[0].opaque.parameters",
        f"{config_path}[1].source",
        f"{config_path}[2]",
        f"{config_path}[3].requests[0]",
        "status.reservedFor[0]",
    ]


def test_claim_without_metadata_is_refused() -> None:
    assert broken_by({}) == ("document: object with no fields: needs metadata; add it",)
