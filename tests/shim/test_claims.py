# ruff: noqa: E501  one broken rule per line reads as a table
"""Documents of resource.k8s.io: what is read from them, and each rule of the API server."""

import json
from contextlib import suppress
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_shim.claims import (
    Cel,
    ClaimSpec,
    Constraint,
    DeviceClass,
    DeviceRequest,
    OtherObject,
    Parameters,
    Request,
    ResourceClaim,
    ResourceClaimTemplate,
    Toleration,
    parse_document,
    parse_manifests,
)
from dranet_nri.config import ConfigEntry, ConfigSource
from dranet_nri.errors import ConfigError
from dranet_nri.model import InterfaceConfig, NetworkConfig

Json = dict[str, object]

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

FLAT = """
apiVersion: resource.k8s.io/v1beta1
kind: DeviceClass
metadata:
  name: dranet
spec:
  selectors:
  - cel:
      expression: device.driver == "dra.net"
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaimTemplate
metadata:
  name: 2-gpu-nic-aligned
spec:
  spec:
    devices:
      requests:
      - name: gpu
        deviceClassName: gpu.nvidia.com
        count: 2
        selectors:
        - cel: {expression: 'device.attributes["gpu.nvidia.com"].index <= 2'}
      - name: nic
        deviceClassName: dranet
        count: 2
        selectors:
        - cel: {expression: 'device.attributes["dra.net"].rdma == true'}
      constraints:
      - matchAttribute: "resource.kubernetes.io/pcieRoot"
"""


def exactly(**fields: object) -> Json:
    return {"name": "nic", "exactly": {"deviceClassName": "dranet"} | fields}


def claim(version: str = "v1", **devices: object) -> Json:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": "nics"},
        "spec": {"devices": {"requests": [exactly()]} | devices},
    }


def device_class(**spec: object) -> Json:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "dranet"},
        "spec": spec,
    }


def opaque(parameters: object, **more: object) -> Json:
    return {"opaque": {"driver": "dra.net", "parameters": parameters}} | more


def test_the_numa_story_s_template_is_read() -> None:
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


def test_the_flat_requests_of_the_gke_story_are_read() -> None:
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
    document = claim(
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
    )  # fmt: skip
    document["metadata"] = {
        "name": "nics", "namespace": "ml", "uid": "c1", "labels": {"a": "b"}, "annotations": {},
    }  # fmt: skip
    document["status"] = {"whatever": 1}

    assert parse_document(document) == ResourceClaim(
        "ml",
        "nics",
        "c1",
        ClaimSpec(
            requests=(
                Request("nic", (
                    DeviceRequest("nic", "dranet", count=2, admin_access=True,
                                  capacity=(("dra.net/bandwidth", Fraction(10**10)), ("dra.net/lanes", Fraction(4))),
                                  tolerations=(Toleration("a", "b", effect="NoSchedule"), Toleration(exists=True))),
                )),
                Request("any", (
                    DeviceRequest("any/fast", "a"),
                    DeviceRequest("any/all", "b", every=True),
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


def test_a_class_with_configuration_is_read() -> None:
    parsed = parse_document(
        device_class(
            selectors=[],
            config=[opaque({"interface": {"mtu": 9000}})],
            extendedResourceName="dra.net/nic",
        )
    )

    assert isinstance(parsed, DeviceClass)
    assert [entry.source for entry in parsed.configs] == [ConfigSource.CLASS]


def test_a_claim_without_devices_and_one_with_a_generated_name_are_read() -> None:
    document = claim() | {"spec": {}, "metadata": {"generateName": "nics-", "namespace": "ml"}}

    assert parse_document(document) == ResourceClaim("ml", "nics", "", ClaimSpec())


def test_a_constraint_that_names_requests_covers_only_those_and_their_parts() -> None:
    constraint = Constraint("dra.net/rail", ("a", "b/x"))

    covered = [name for name in ("a", "a/x", "b", "b/x", "b/y") if constraint.covers(name)]

    assert covered == ["a", "a/x", "b/x"]


def test_a_document_without_kind_is_a_network_configuration() -> None:
    (parameters,) = parse_manifests('{"interface": {"mtu": 9000}}')

    assert parameters == Parameters(NetworkConfig(InterfaceConfig(mtu=9000)))


def test_other_objects_are_named_and_not_looked_into() -> None:
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


def test_a_list_is_taken_apart() -> None:
    items: Json = {"apiVersion": "v1", "kind": "List", "items": [claim(), device_class()]}

    kinds = [type(each) for each in parse_manifests(json.dumps(items))]

    assert kinds == [ResourceClaim, DeviceClass]


def violations(document: object, path: str = "") -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        parse_document(document, path)
    return caught.value.violations


R = "spec.devices.requests[0]"
BROKEN = [
    # the object
    ([], "document: list of 0: must be an object with named fields"),
    ({"kind": "ResourceClaim"}, "needs apiVersion; add it"),
    ({"apiVersion": "resource.k8s.io/v1"}, "needs kind; add it"),
    ({"apiVersion": 1, "kind": None}, "apiVersion: 1: must be a string"),
    ({"apiVersion": 1, "kind": None}, "kind: null: must be a string"),
    (claim("v1alpha3"), 'apiVersion: "resource.k8s.io/v1alpha3": this version is not known; use one of resource.k8s.io/v1,'),
    (claim() | {"kind": "ResourceClaimTemplat"}, 'kind: "ResourceClaimTemplat": no such kind in resource.k8s.io (did you mean "ResourceClaimTemplate"?)'),
    (claim() | {"sepc": {}}, 'sepc: object with no fields: unknown field (did you mean "spec"?)'),
    ({**claim(), "metadata": None}, "needs metadata; add it"),
    ({**claim(), "metadata": {}}, "metadata: object with no fields: needs name; add it"),
    ({**claim(), "metadata": {"generateName": 1}}, "metadata.generateName: 1: must be a string"),
    ({**claim(), "metadata": {"name": "A"}}, 'metadata.name: "A": must be a DNS subdomain'),
    ({**claim(), "metadata": {"name": "a" * 254}}, "must be a DNS subdomain"),
    ({**claim(), "metadata": {"name": "a", "namespace": "a.b"}}, 'metadata.namespace: "a.b": must be a DNS label'),
    ({**claim(), "metadata": {"name": "a", "namespace": "a" * 64}}, "must be a DNS label"),
    ({**claim(), "metadata": {"name": "a", "uid": "../x"}}, 'metadata.uid: "../x": must be 1 to 128 of letters'),
    ({**claim(), "metadata": {"name": "a", "labels": {"x": 1}}}, "metadata.labels.x: 1: must be a string"),
    ({**claim(), "metadata": {"name": "a", "label": {}}}, 'unknown field (did you mean "labels"?)'),
    ({**claim(), "spec": None}, "needs spec; add it"),
    (device_class() | {"spec": None}, "needs spec; add it"),
    (device_class(suitableNodes={}), "spec.suitableNodes: object with no fields: unknown field"),
    (device_class(extendedResourceName=1), "spec.extendedResourceName: 1: must be a string"),
    (device_class(config=[opaque({}, requests=[])]), "spec.config[0].requests: list of 0: unknown field"),
    (claim() | {"kind": "ResourceClaimTemplate"}, "spec.devices: object with requests: unknown field"),
    (claim() | {"kind": "ResourceClaimTemplate"}, "spec: object with devices: needs spec; add it"),
    (claim() | {"kind": "ResourceClaimTemplate", "spec": None}, "needs spec; add it"),
    (claim() | {"kind": "ResourceClaimTemplate", "spec": {"metadata": {"x": 1}, "spec": {}}}, "spec.metadata.x: 1: unknown field"),
    # requests
    (claim(requests=[exactly()] * 33), "spec.devices.requests: list of 33: has 33 entries; at most 32 are allowed"),
    (claim(requests=[exactly(), exactly()]), "spec.devices.requests[1]: object with name, exactly: the name of a request must be unique"),
    (claim(requests=["nic"]), f'{R}: "nic": must be an object'),
    (claim(requests=[{"exactly": {}}]), f"{R}: object with exactly: needs name; add it"),
    (claim(requests=[exactly() | {"name": "Nic"}]), f'{R}.name: "Nic": must be a DNS label'),
    (claim(requests=[{"name": "nic"}]), f"{R}: object with name: needs exactly or firstAvailable; add one"),
    (claim(requests=[exactly() | {"firstAvailable": []}]), "has firstAvailable and exactly; keep one"),
    (claim(requests=[{"name": "nic", "firstAvailable": []}]), f"{R}.firstAvailable: list of 0: needs at least one subrequest"),
    (claim(requests=[{"name": "nic", "firstAvailable": [{"name": str(i), "deviceClassName": "a"} for i in range(9)]}]), "at most 8 are allowed"),
    (claim(requests=[{"name": "nic", "firstAvailable": [{"name": "a", "deviceClassName": "a"}] * 2}]), "the name of a subrequest must be unique in its request"),
    (claim(requests=[{"name": "nic", "firstAvailable": [{"deviceClassName": "a"}]}]), f"{R}.firstAvailable[0]: object with deviceClassName: needs name"),
    (claim(requests=[{"name": "nic", "firstAvailable": [{"name": "a/b"}]}]), "must be a DNS label"),
    (claim(requests=[{"name": "nic", "deviceClassName": "a"}]), f'{R}.deviceClassName: "a": belongs under exactly; only v1beta1 has it directly'),
    (claim("v1beta1", requests=[exactly()]), f"{R}.exactly: object with deviceClassName: v1beta1 has no exactly; move its fields up"),
    (claim("v1beta1", requests=[{"name": "nic"}]), f"{R}: object with name: needs deviceClassName; add it"),
    (claim(requests=[{"name": "nic", "exactly": {}}]), f"{R}.exactly: object with no fields: needs deviceClassName; add it"),
    (claim(requests=[exactly(deviceClassName="A")]), f'{R}.exactly.deviceClassName: "A": must be a DNS subdomain'),
    (claim(requests=[exactly(countt=1)]), f'{R}.exactly.countt: 1: unknown field (did you mean "count"?)'),
    (claim(requests=[exactly(count=0)]), f"{R}.exactly.count: 0: must be 1 to 32"),
    (claim(requests=[exactly(count=33)]), f"{R}.exactly.count: 33: must be 1 to 32"),
    (claim(requests=[exactly(count="2")]), "must be a whole number, without quotes"),
    (claim(requests=[exactly(allocationMode="all")]), f'{R}.exactly.allocationMode: "all": must be ExactCount or All'),
    (claim(requests=[exactly(allocationMode=1)]), "must be a string"),
    (claim(requests=[exactly(allocationMode="All", count=1)]), "not possible with allocationMode All; remove one"),
    (claim(requests=[exactly(adminAccess="yes")]), "must be true or false"),
    (claim(requests=[exactly(selectors=[{}] * 33)]), "at most 32 are allowed"),
    (claim(requests=[exactly(selectors=[{}])]), f"{R}.exactly.selectors[0]: object with no fields: needs cel; add it"),
    (claim(requests=[exactly(selectors=[{"cel": {}}])]), f"{R}.exactly.selectors[0].cel: object with no fields: needs expression"),
    (claim(requests=[exactly(selectors=[{"cel": {"expression": 1}}])]), f"{R}.exactly.selectors[0].cel.expression: 1: must be a string"),
    (claim(requests=[exactly(selectors=[{"cel": {"expression": " "}}])]), "must not be empty; write true to select every device"),
    (claim(requests=[exactly(selectors=[{"cel": {"expression": "x" * 10241}}])]), "is longer than 10240 bytes; shorten it"),
    (claim(requests=[exactly(selectors=[{"cel": {"expression": "device.drver == 'x'"}}])]), f"""{R}.exactly.selectors[0].cel.expression: "device.drver == 'x'": line 1 column 7: undeclared reference to 'device.drver'"""),
    (claim(requests=[exactly(selectors=[{"cel": {"expresion": "x"}}])]), 'unknown field (did you mean "expression"?)'),
    (claim(requests=[exactly(tolerations=[{}] * 17)]), "at most 16 are allowed"),
    (claim(requests=[exactly(tolerations=[{"operator": "In"}])]), "tolerations[0].operator: \"In\": must be one of Exists, Equal"),
    (claim(requests=[exactly(tolerations=[{"effect": "PreferNoSchedule"}])]), "must be one of NoSchedule, NoExecute, None"),
    (claim(requests=[exactly(tolerations=[{"operator": "Exists", "value": "x"}])]), "not possible with operator Exists"),
    (claim(requests=[exactly(tolerations=[{"effect": "NoSchedule"}])]), "needs key, or operator Exists to tolerate every taint; add one"),
    (claim(requests=[exactly(tolerations=[{"key": "-"}])]), 'tolerations[0].key: "-": must be 1 to 63 letters'),
    (claim(requests=[exactly(tolerations=[{"key": "a", "value": "b c"}])]), 'tolerations[0].value: "b c": must be 1 to 63 letters'),
    (claim(requests=[exactly(capacity={"requests": {"a-b": "1"}})]), "capacity.requests.a-b: \"1\": its name must end in a C identifier"),
    (claim(requests=[exactly(capacity={"requests": {"a": "-1"}})]), "must not be negative"),
    (claim(requests=[exactly(tolerations=[{"key": 1}])]), "tolerations[0].key: 1: must be a string"),
    (claim(requests=[exactly(tolerations=[{"tolerationSeconds": "x"}])]), "must be a whole number"),
    (claim(requests=[exactly(capacity={"requests": {"dra.net/x": "ten"}})]), f'{R}.exactly.capacity.requests.dra.net/x: "ten": must be a quantity'),
    (claim(requests=[exactly(capacity={"requests": {"dra.net/x": True}})]), "must be a string"),
    (claim(requests=[exactly(capacity={"request": {}})]), 'unknown field (did you mean "requests"?)'),
    # constraints
    (claim(constraints=[{}] * 33), "at most 32 are allowed"),
    (claim(constraints=[{}]), "spec.devices.constraints[0]: object with no fields: needs matchAttribute or distinctAttribute, one of them"),
    (claim(constraints=[{"matchAttribute": "a/b", "distinctAttribute": "a/b"}]), "needs matchAttribute or distinctAttribute"),
    (claim(constraints=[{"matchAttribute": "numaNode"}]), 'constraints[0].matchAttribute: "numaNode": must have a domain in front'),
    (claim(constraints=[{"matchAttribute": "A/numaNode"}]), "must be a DNS subdomain"),
    (claim(constraints=[{"matchAttribute": f"{'a' * 64}/x"}]), "is 64 characters long; at most 63"),
    (claim(constraints=[{"matchAttribute": "a.b/numa-node"}]), "must end in a C identifier"),
    (claim(constraints=[{"matchAttribute": f"a.b/{'x' * 33}"}]), "must end in a C identifier"),
    (claim(constraints=[{"matchAttribute": "a.b/x", "requests": ["gpu"]}]), 'constraints[0].requests[0]: "gpu": no such request; the claim has nic'),
    (claim(constraints=[{"matchAttribute": "a.b/x", "requests": ["nic", "nic"]}]), 'requests[1]: "nic": given twice; keep one'),
    (claim(constraints=[{"matchAttribute": "a.b/x", "requests": [1]}]), "constraints[0].requests[0]: 1: must be a string"),
    # configuration
    (claim(config=[{}] * 33), "at most 32 are allowed"),
    (claim(config=[{}]), "spec.devices.config[0]: object with no fields: needs opaque; add it"),
    (claim(config=[{"opaque": {}}]), "spec.devices.config[0].opaque: object with no fields: needs driver; add it"),
    (claim(config=[{"opaque": {"driver": "dra.net"}}]), "needs parameters; add it"),
    (claim(config=[{"opaque": {"driver": "A", "parameters": {}}}]), 'opaque.driver: "A": must be a DNS subdomain'),
    (claim(config=[opaque("x")]), 'config[0].opaque.parameters: "x": must be an object'),
    (claim(config=[opaque({"x": "y" * 10240})]), "is longer than 10240 bytes as JSON; shorten it"),
    (claim(config=[opaque({}, requests=["gpu"])]), "no such request; the claim has nic"),
    (claim(config=[opaque({}, requests=["x"])], requests=[]), "no such request; the claim has none"),
    (claim(config=[opaque({"interface": {"mtu": 1}})]), "spec.devices.config[0].opaque.parameters.interface.mtu: 1: must be 68 to"),
    (device_class(config=[opaque({"interface": {"mtu": 1}})]), "spec.config[0].opaque.parameters.interface.mtu: 1: must be 68 to"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "expected"), BROKEN, ids=[line[:70] for _, line in BROKEN])
def test_a_broken_rule_is_told_with_path_value_and_remedy(document: object, expected: str) -> None:
    assert any(expected in line for line in violations(document)), violations(document)


def test_all_violations_come_at_once_in_document_order() -> None:
    document = claim(
        config=[opaque({"interface": {"mtu": 1}})],
        requests=[exactly(count=0), {"name": "x"}],
    )

    assert [line.split(": ")[0] for line in violations(document, "documents[1]")] == [
        "documents[1].spec.devices.requests[0].exactly.count",
        "documents[1].spec.devices.requests[1]",
        "documents[1].spec.devices.config[0].opaque.parameters.interface.mtu",
    ]


def test_the_violations_of_all_documents_of_a_file_come_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_manifests("interface: {mtu: 1}\n---\nkind: List\nitems: [{kind: x}, {mtu: 1}]\n")

    assert [line.split(": ")[0] for line in caught.value.violations] == [
        "documents[0].interface.mtu",
        "documents[1].items[0]",
        "documents[1].items[1].mtu",
    ]


def test_a_list_without_items_is_an_object_like_others() -> None:
    assert parse_manifests("{apiVersion: v1, kind: List, items: 3}") == (OtherObject("List", ""),)


def test_a_repeated_key_is_told_where_it_stands() -> None:
    text = FLAT.replace("name: dranet\n", "name: dranet\n  name: other\n", 1)

    with pytest.raises(ConfigError) as caught:
        parse_manifests(text)

    assert caught.value.violations == (
        'documents[0].metadata.name: "other": given more than once; keep one',
    )


words = st.sampled_from(
    ["apiVersion", "kind", "metadata", "spec", "devices", "requests", "exactly", "name", "config"]
) | st.text(max_size=5)
leaves = st.none() | st.booleans() | st.integers() | st.sampled_from(
    ["resource.k8s.io/v1", "resource.k8s.io/v1beta1", "ResourceClaim", "DeviceClass", "nic", ""]
)  # fmt: skip
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=6)
)


@given(anything)
def test_any_document_gives_a_value_or_a_config_error(document: object) -> None:
    with suppress(ConfigError):
        assert parse_document(document) is not None


@given(
    st.dictionaries(words, anything, max_size=4),
    st.sampled_from(["ResourceClaim", "ResourceClaimTemplate", "DeviceClass"]),
    st.sampled_from(["v1", "v1beta1"]),
)
def test_any_spec_gives_a_value_or_a_config_error(spec: Json, kind: str, version: str) -> None:
    document = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": "x"},
        "spec": {"devices": spec, "spec": {"devices": spec}},
    }
    with suppress(ConfigError):
        assert parse_document(document) is not None
