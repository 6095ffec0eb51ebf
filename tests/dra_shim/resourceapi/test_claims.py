# ruff: noqa: E501  one field per line reads as a table
"""Decoding of resource.k8s.io documents."""

import json
from fractions import Fraction

import pytest

from dra_shim.resourceapi import (
    Cel,
    ClaimRequest,
    ClaimSpec,
    Constraint,
    DeviceClass,
    DeviceRequest,
    OtherObject,
    Parameters,
    ResourceClaim,
    ResourceClaimTemplate,
    Toleration,
    parse_document,
    parse_manifests,
    parse_stored,
)
from dranet_nri.config import ConfigEntry, ConfigSource
from dranet_nri.errors import ConfigError
from dranet_nri.model import InterfaceConfig, NetworkConfig
from tests.dra_shim.resourceapi.claim_documents import (
    FLAT,
    Json,
    claim,
    device_class,
    exactly,
    opaque,
)

ALIGNED = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata:
  name: h100-4gpu-4nic-numa-aligned
spec:
  metadata:
    labels: {app: mfu}
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
          count: 4
          selectors:
          - cel:
              expression: |-
                device.attributes["resource.kubernetes.io"]["pciBusID"] in ["0001:00:00.0"]
      - name: nic
        exactly:
          deviceClassName: dranet.net
          count: 4
          selectors:
          - cel:
              expression: device.attributes["dra.net"]["rdma"] == true && device.attributes["dra.net"]["numaNode"] == 0
"""
EVERY_FIELD = claim(
    "v1beta2",
    requests=[
        exactly(
            allocationMode="ExactCount",
            count=2,
            adminAccess=True,
            tolerations=[
                {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule", "tolerationSeconds": 5},
                {"operator": "Exists"},
            ],
            capacity={"requests": {"dra.net/bandwidth": "10G", "dra.net/lanes": 4}},
        ),
        {"name": "any", "firstAvailable": [
            {"name": "fast", "deviceClassName": "a"},
            {"name": "all", "deviceClassName": "b", "allocationMode": "All"},
        ]},
    ],
    constraints=[{"requests": ["any"], "distinctAttribute": "dra.net/rail"}],
    config=[
        opaque({"interface": {"mtu": 9000}}, requests=["nic", "any/fast"]),
        {"opaque": {"driver": "gpu.nvidia.com", "parameters": {"anything": [1]}}},
    ],
) | {
    "metadata": {"name": "nics", "namespace": "ml", "uid": "c1", "labels": {"a": "b"}, "annotations": {}},
    "status": {"whatever": 1},
}  # fmt: skip
AS_READ = ResourceClaim(
    "ml",
    "nics",
    "c1",
    ClaimSpec(
        requests=(
            ClaimRequest("nic", (
                DeviceRequest("nic", "dranet", count=2, admin_access=True,
                              capacity=(("dra.net/bandwidth", Fraction(10**10)), ("dra.net/lanes", Fraction(4))),
                              tolerations=(Toleration("a", "b", effect="NoSchedule"), Toleration(exists=True))),
            )),
            ClaimRequest("any", (
                DeviceRequest("any/fast", "a"),
                DeviceRequest("any/all", "b", all_devices=True),
            )),
        ),
        constraints=(
            Constraint("dra.net/rail", ("any",), distinct=True, path="spec.devices.constraints[0]"),
        ),
        configs=(
            ConfigEntry(ConfigSource.CLAIM, "dra.net", {"interface": {"mtu": 9000}},
                        ("nic", "any/fast"), "spec.devices.config[0].opaque.parameters"),
            ConfigEntry(ConfigSource.CLAIM, "gpu.nvidia.com", {"anything": [1]}, (),
                        "spec.devices.config[1].opaque.parameters"),
        ),
    ),
)  # fmt: skip


def test_template_of_the_numa_story_is_read() -> None:
    (template,) = parse_manifests(ALIGNED)

    assert isinstance(template, ResourceClaimTemplate)
    assert (template.namespace, template.name) == ("", "h100-4gpu-4nic-numa-aligned")
    gpu, nic = template.spec.requests
    assert gpu.alternatives[0].count == 4
    assert nic.alternatives == (
        DeviceRequest(
            name="nic",
            device_class="dranet.net",
            selectors=(
                Cel(
                    'device.attributes["dra.net"]["rdma"] == true && '
                    'device.attributes["dra.net"]["numaNode"] == 0',
                    "spec.spec.devices.requests[1].exactly.selectors[0].cel.expression",
                ),
            ),
            count=4,
        ),
    )


def test_flat_requests_of_the_gke_story_are_read() -> None:
    cls, template = parse_manifests(FLAT)

    assert cls == DeviceClass(
        "dranet",
        (Cel('device.driver == "dra.net"', "documents[0].spec.selectors[0].cel.expression"),),
    )
    assert isinstance(template, ResourceClaimTemplate)
    assert [request.name for request in template.spec.requests] == ["gpu", "nic"]
    assert template.spec.requests[1].alternatives[0].device_class == "dranet"
    (constraint,) = template.spec.constraints
    assert constraint.attribute == "resource.kubernetes.io/pcieRoot"
    assert constraint.covers("gpu")
    assert constraint.covers("nic")


def test_every_field_of_a_claim_is_read() -> None:
    assert parse_document(EVERY_FIELD) == AS_READ


def test_class_with_configuration_is_read() -> None:
    parsed = parse_document(
        device_class(
            selectors=[],
            config=[opaque({"interface": {"mtu": 9000}})],
            extendedResourceName="dra.net/nic",
        )
    )

    assert isinstance(parsed, DeviceClass)
    assert [entry.source for entry in parsed.configs] == [ConfigSource.CLASS]


def test_claims_without_devices_or_with_generated_names_are_read() -> None:
    document = claim() | {"spec": {}, "metadata": {"generateName": "nics-", "namespace": "ml"}}

    assert parse_document(document) == ResourceClaim("ml", "nics", "", ClaimSpec())


def test_constraint_covers_only_its_requests_and_subrequests() -> None:
    constraint = Constraint("dra.net/rail", ("a", "b/x"))

    covered = [name for name in ("a", "a/x", "b", "b/x", "b/y") if constraint.covers(name)]

    assert covered == ["a", "a/x", "b/x"]


def test_document_without_kind_is_a_network_configuration() -> None:
    (parameters,) = parse_manifests('{"interface": {"mtu": 9000}}')

    assert parameters == Parameters(NetworkConfig(InterfaceConfig(mtu=9000)))


def test_bare_configuration_has_the_length_limit_of_the_server() -> None:
    routes = [{"destination": f"10.{n}.0.0/16", "scope": 253} for n in range(256)]

    with pytest.raises(ConfigError) as caught:
        parse_document({"routes": routes})

    assert caught.value.violations == ("document: is longer than 10240 bytes as JSON; shorten it",)
    assert isinstance(parse_document({"routes": routes[:200]}), Parameters)


def test_other_objects_are_listed_and_not_parsed() -> None:
    found = parse_manifests(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {x: 1}\n---\n"
        "apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: x\n---\n"
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {}\n"
    )

    assert found == (
        OtherObject("Pod", "p"),
        OtherObject("DeviceTaintRule", ""),
        OtherObject("Deployment", ""),
    )


def test_items_of_a_list_are_separate_objects() -> None:
    items: Json = {"apiVersion": "v1", "kind": "List", "items": [claim(), device_class()]}

    kinds = [type(manifest) for manifest in parse_manifests(json.dumps(items))]

    assert kinds == [ResourceClaim, DeviceClass]


def test_items_of_lists_within_lists_are_separate_objects() -> None:
    inner: Json = {"apiVersion": "v1", "kind": "List", "items": [claim(), device_class()]}
    outer: Json = {"apiVersion": "v1", "kind": "List", "items": [inner]}

    kinds = [type(manifest) for manifest in parse_manifests(json.dumps(outer))]

    assert kinds == [ResourceClaim, DeviceClass]


def test_items_of_a_list_of_one_kind_have_its_kind_and_version() -> None:
    first, second = claim(), claim()
    del first["apiVersion"], first["kind"]
    items: Json = first | {"kind": "ResourceClaimList", "items": [first, second]}
    items["apiVersion"] = second["apiVersion"]

    kinds = [type(manifest) for manifest in parse_manifests(json.dumps(items))]

    assert kinds == [ResourceClaim, ResourceClaim]


@pytest.mark.parametrize("version", ["v1", "resource.k8s.io", "resources.k8s.io/v1"])
def test_kind_of_the_group_with_another_group_is_refused(version: str) -> None:
    with pytest.raises(ConfigError, match=r"ResourceClaim is of resource\.k8s\.io; write"):
        parse_document(claim() | {"apiVersion": version})

    other = parse_document(claim() | {"apiVersion": "claims.example.com/v1"})
    assert isinstance(other, OtherObject)


def test_list_without_items_is_an_object() -> None:
    assert parse_manifests("{apiVersion: v1, kind: List, items: 3}") == (OtherObject("List", ""),)


def test_stored_objects_can_have_unknown_fields() -> None:
    spec = {"selectors": [{"cel": {"expression": "device.next()"}}], "next": 1}
    stored = {"metadata": {"name": "c", "resourceVersion": "7"}, "spec": spec}
    named = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}

    found = parse_document(named | stored)

    assert isinstance(found, DeviceClass)
    assert [cel.expression for cel in found.selectors] == ["device.next()"]
    assert parse_document(named | stored | {"kind": "DeviceGroup"}) == OtherObject(
        "DeviceGroup", "c"
    )
    with pytest.raises(ConfigError) as caught:
        parse_document(named | stored | {"metadata": {"name": "c"}})
    assert len(caught.value.violations) == 2


def test_spec_of_allocated_claims_is_not_read() -> None:
    broken = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c"},
        "spec": {"devices": {"config": [opaque({"interface": {"mtu": 1}})]}},
    }
    text = json.dumps({"kind": "List", "items": [broken, {"apiVersion": "v1", "kind": "Pod"}]})

    assert parse_manifests(text, only_allocated=True) == (
        ResourceClaim("", "c", "", ClaimSpec()),
        OtherObject("Pod", ""),
    )
    with pytest.raises(ConfigError):
        parse_manifests(text)


def test_stored_object_with_an_invalid_spec_has_its_violations() -> None:
    devices = claim(config=[opaque({"interface": {"mtuu": 1}})])["spec"]
    template = claim() | {"kind": "ResourceClaimTemplate", "spec": {"spec": devices}}
    unread_claim = parse_stored(claim() | {"spec": devices})
    unread_template = parse_stored(template)
    unread_class = parse_stored(device_class(selectors=[{}]))

    assert isinstance(unread_claim, ResourceClaim)
    assert isinstance(unread_template, ResourceClaimTemplate)
    assert isinstance(unread_class, DeviceClass)
    parameters = "devices.config[0].opaque.parameters.interface.mtuu: 1: unknown field"
    for violations, expected in (
        (unread_claim.spec.violations, f"ResourceClaim nics: spec.{parameters}"),
        (unread_template.spec.violations, f"ResourceClaimTemplate nics: spec.spec.{parameters}"),
        (unread_class.violations, "DeviceClass dranet: spec.selectors[0]"),
    ):
        (line,) = violations
        assert line.startswith(expected)


def test_spec_of_a_stored_object_is_read() -> None:
    stored = claim()

    assert parse_stored(stored) == parse_document(stored)
    with pytest.raises(ConfigError, match=r"^ResourceSlice nics: spec"):
        parse_stored(stored | {"kind": "ResourceSlice"})
