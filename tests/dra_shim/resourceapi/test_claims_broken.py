# ruff: noqa: E501  one broken rule per line reads as a table
"""Documents that break a rule of the API server, and any other: told, or read."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_shim.resourceapi import parse_document, parse_manifests
from dranet_nri.errors import ConfigError
from tests.dra_shim.resourceapi.claim_documents import (
    FLAT,
    Json,
    claim,
    device_class,
    exactly,
    opaque,
)


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
    (device_class(extendedResourceName="nic"), 'spec.extendedResourceName: "nic": must be a name with a domain of your own, as in example.com/nic'),
    (device_class(extendedResourceName="kubernetes.io/nic"), "must be a name with a domain of your own"),
    (device_class(extendedResourceName="requests.x.y/nic"), "must be a name with a domain of your own"),
    (device_class(extendedResourceName="a.b/c/d"), 'spec.extendedResourceName: "a.b/c/d": must be'),
    (device_class(extendedResourceName="a.b/"), 'spec.extendedResourceName: "a.b/": must be 1 to 63 letters'),
    (device_class(config=[opaque({}, requests=[])]), "spec.config[0].requests: list of 0: unknown field"),
    # a level too high or too low
    (claim() | {"kind": "ResourceClaimTemplate"}, "spec.devices: object with requests: belongs under spec.spec; move it there"),
    (claim() | {"spec": {"devices": {}, "config": []}}, "spec.config: list of 0: belongs under spec.devices; move it there"),
    (claim() | {"spec": {"requests": [exactly()]}}, "spec.requests: list of 1: belongs under spec.devices; move it there"),
    (claim() | {"spec": {"constraints": []}}, "spec.constraints: list of 0: belongs under spec.devices; move it there"),
    (claim() | {"spec": {"spec": {"devices": {}}}}, "spec.spec: object with devices: only a ResourceClaimTemplate has a spec in its spec; move its fields up"),
    (claim() | {"kind": "ResourceClaimTemplate", "spec": {}}, "spec: object with no fields: needs spec; add it"),
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
    (device_class(selectors=[{"cel": {"expression": "device.attributes['dra.net/isSriovVf'].BoolValue"}}]), "attributes['dra.net/isSriovVf'] is in the language of --filter; write device.attributes[\"dra.net\"].isSriovVf"),
    (device_class(selectors=[{"cel": {"expression": "attributes['dra.net/type'].StringValue == 'veth'"}}]), 'write device.attributes["dra.net"].type'),
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
    (claim(config=[opaque({"policy": {"name": "mine"}})]), "parameters.policy: object with name: only a DeviceClass can have a policy; remove it"),
    (device_class(config=[opaque({"interface": {"mtu": 1}})]), "spec.config[0].opaque.parameters.interface.mtu: 1: must be 68 to"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "expected"), BROKEN, ids=[line[:70] for _, line in BROKEN])
def test_violation_has_path_value_and_remedy(document: object, expected: str) -> None:
    assert any(expected in line for line in violations(document)), violations(document)


def test_gateway_of_parameters_alone_must_be_in_a_network_of_the_addresses() -> None:
    route = {"destination": "0.0.0.0/0", "gateway": "10.8.0.1"}
    parameters = {"interface": {"addresses": ["10.9.0.1/24"]}, "routes": [route]}

    expected = 'routes[0].gateway: "10.8.0.1": is in no network of interface.addresses'
    for path, prefix in (("", ""), ("file", "file.")):
        (line,) = violations(parameters, path)
        assert line.startswith(prefix + expected)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (claim(requests=[{"name": "nic", "exactly": {"deviceClass": "a"}}]), "deviceClass"),
        (claim() | {"spec": {}, "metdata": {"name": "a"}, "metadata": None}, "metdata"),
        ({"neighbors": [{"ipAddress": "10.0.0.1", "hardwareAddr": "02:00:00:00:00:01"}]}, "ipAddress"),
        ({"neighbors": [{"destinaton": "10.0.0.1", "hardwareAddr": "02:00:00:00:00:01"}]}, "destinaton"),
    ],
)  # fmt: skip
def test_misspelt_field_is_not_reported_as_missing_too(document: object, field: str) -> None:
    (line,) = violations(document)

    assert field in line


def test_misplaced_field_is_reported_once() -> None:
    document = claim() | {"kind": "ResourceClaimTemplate"}

    (line,) = violations(document)

    assert line.startswith("spec.devices: ")


@pytest.mark.parametrize(
    "document",
    [{"image": {}, "resources": {}, "tolerations": []}, {"devices": {}}, {"status": {}}],
    ids=str,
)
def test_document_of_another_format_is_reported_once(document: dict[str, object]) -> None:
    (line,) = violations(document, "documents[1]")

    assert line == (
        f"documents[1]: object with {', '.join(document)}: is no manifest, which has apiVersion "
        "and kind, and no NetworkConfig, which has some of: ethtool, interface, neighbors, "
        "profile, rdma, routes, rules; correct it, or leave it out"
    )


def test_misspelt_field_of_a_network_config_is_reported() -> None:
    (line,) = violations({"interfaces": {}})

    assert '(did you mean "interface"?)' in line


def test_all_violations_are_reported_in_document_order() -> None:
    document = claim(
        config=[opaque({"interface": {"mtu": 1}})],
        requests=[exactly(count=0), {"name": "x"}],
    )

    assert [line.split(": ")[0] for line in violations(document, "documents[1]")] == [
        "documents[1].spec.devices.requests[0].exactly.count",
        "documents[1].spec.devices.requests[1]",
        "documents[1].spec.devices.config[0].opaque.parameters.interface.mtu",
    ]


def test_violations_of_all_documents_are_reported() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_manifests("interface: {mtu: 1}\n---\nkind: List\nitems: [{kind: x}, {mtu: 1}]\n")

    assert [line.split(": ")[0] for line in caught.value.violations] == [
        "documents[0].interface.mtu",
        "documents[1].items[0]",
        "documents[1].items[1]",
    ]


def test_repeated_key_is_reported_with_its_line() -> None:
    text = FLAT.replace("name: dranet\n", "name: dranet\n  name: other\n", 1)

    with pytest.raises(ConfigError) as caught:
        parse_manifests(text)

    assert caught.value.violations == (
        'documents[0].metadata.name: "other": given more than once; keep one',
    )


texts = st.sampled_from(
    ["apiVersion", "kind", "metadata", "spec", "devices", "requests", "exactly", "name", "config"]
) | st.text(max_size=5)
leaves = st.none() | st.booleans() | st.integers() | st.sampled_from(
    ["resource.k8s.io/v1", "resource.k8s.io/v1beta1", "ResourceClaim", "DeviceClass", "nic", ""]
)  # fmt: skip
anything = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=6)
)


@given(anything)
def test_any_document_is_a_value_or_a_config_error(document: object) -> None:
    with suppress(ConfigError):
        assert parse_document(document) is not None


@given(
    st.dictionaries(texts, anything, max_size=4),
    st.sampled_from(["ResourceClaim", "ResourceClaimTemplate", "DeviceClass"]),
    st.sampled_from(["v1", "v1beta1"]),
)
def test_any_spec_is_a_value_or_a_config_error(spec: Json, kind: str, version: str) -> None:
    document = {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": "x"},
        "spec": {"devices": spec, "spec": {"devices": spec}},
    }
    with suppress(ConfigError):
        assert parse_document(document) is not None
