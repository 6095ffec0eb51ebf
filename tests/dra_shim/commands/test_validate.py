# ruff: noqa: E501  one case per line reads as a table
"""`dra-shim validate`: documents against each other."""

from pathlib import Path

import pytest

from tests.dra_shim.commands.shim_bench import CLAIM, CLASS, TEMPLATE, Shim

pytestmark = pytest.mark.process


POD = """
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: default}
spec:
  resourceClaims:
  - {name: net, resourceClaimTemplateName: one}
  containers:
  - {name: main, resources: {claims: [{name: net}]}}
"""
TWO = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: named}
spec:
  spec:
    devices:
      requests:
      - name: nic
        exactly: {deviceClassName: dranet}
      config:
      - opaque: {driver: dra.net, parameters: {interface: {name: net1}}}
"""
NAMED = "{name: net1, addresses: [192.0.2.10/24]}"


@pytest.fixture
def shim(tmp_path: Path) -> Shim:
    return Shim(tmp_path)


def validate(shim: Shim, *documents: str) -> tuple[int, list[str]]:
    done = shim.run("validate", "-", stdin="---\n".join(documents))
    return done.returncode, done.stderr.splitlines()


def test_pod_that_lists_its_claim_is_valid(shim: Shim) -> None:
    done = shim.run("validate", "-", stdin=f"{TEMPLATE}---{POD}")

    assert (done.returncode, done.stderr) == (0, "")
    assert "standard input: Pod default/train: only its claims are checked" in done.stdout


@pytest.mark.parametrize(
    ("replaced", "by", "line"),
    [
        ("TemplateName: one", "TemplateName: ones", 'no ResourceClaimTemplate ones (did you mean "one"?)'),
        ("resourceClaimTemplateName: one", "resourceClaimName: two", "no ResourceClaim two of that namespace is among the files; give its file as well, or correct resourceClaimName"),
        ("resourceClaimTemplateName: one", "resourceClaimName: one", "resourceClaimName one is the name of a ResourceClaimTemplate; write resourceClaimTemplateName"),
        (", resourceClaimTemplateName: one", "", "claim net needs resourceClaimName or resourceClaimTemplateName; add one"),
        ("  containers:", "  hostNetwork: true\n  containers:", "spec.hostNetwork: true: claim net is for a network device, and none can be moved to the host network; remove hostNetwork, or the claim"),
        ("claims: [{name: net}]", "claims: [{name: nett}]", 'container main: lists claim "nett" (did you mean "net"?), which its pod does not have; the pod has net'),
        ("claims: [{name: net}]", "claims: [{name: net, request: nics}]", 'container main: lists request "nics" (did you mean "nic"?) of claim net; it has nic'),
    ],
)  # fmt: skip
def test_invalid_claim_reference_of_a_pod_is_reported(
    shim: Shim, replaced: str, by: str, line: str
) -> None:
    code, lines = validate(shim, TEMPLATE, POD.replace(replaced, by))

    assert code == 1
    assert any(line in printed for printed in lines), lines
    assert all("Pod default/train: " in line for line in lines)


REPLICAS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: train, namespace: default}
spec:
  replicas: 2
  template:
    spec:
      resourceClaims: [{name: net, resourceClaimTemplateName: named}]
      containers: [{name: main, resources: {claims: [{name: net}]}}]
"""
PLACE = (
    "warning: Deployment default/train: documents[1].spec.template.spec.resourceClaims: claim net: "
)


@pytest.mark.parametrize(
    ("interface", "lines"),
    [
        ("{name: net1, addresses: [192.0.2.10/24]}", [f'{PLACE}2 pods have the address 192.0.2.10/24; write a range such as "10.9.1.16-10.9.1.63/24", of which each pod of a node gets one']),
        ("{name: net1, addresses: [192.0.2.10-192.0.2.20/24]}", []),
        ("{name: net1}", []),
    ],
)  # fmt: skip
def test_address_of_several_pods_of_a_workload_is_reported_as_a_warning(
    shim: Shim, interface: str, lines: list[str]
) -> None:
    template = TWO.replace("{name: net1}", interface)

    assert validate(shim, template, REPLICAS) == (0, lines)
    assert validate(shim, template, REPLICAS.replace("replicas: 2", "replicas: 1")) == (0, [])


@pytest.mark.parametrize(
    ("driver", "lines"),
    [
        ("dranet", [f"{PLACE}2 pods use ResourceClaim fast, and a device can be in one pod only; give each its own with resourceClaimTemplateName"]),
        ("gpu.example.com", []),
    ],
)  # fmt: skip
def test_claim_of_several_pods_of_a_workload_is_reported_as_a_warning(
    shim: Shim, driver: str, lines: list[str]
) -> None:
    claim = f"""
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: fast, namespace: default}}
spec: {{devices: {{requests: [{{name: nic, exactly: {{deviceClassName: {driver}}}}}]}}}}
"""

    replicas = REPLICAS.replace("resourceClaimTemplateName: named", "resourceClaimName: fast")

    assert validate(shim, claim, replicas) == (0, lines)


def test_claim_of_another_driver_is_valid_with_host_network(shim: Shim) -> None:
    pod = POD.replace("  containers:", "  hostNetwork: true\n  containers:")

    assert validate(shim, TEMPLATE.replace("dranet", "gpu.example.com"), pod) == (0, [])


@pytest.mark.parametrize(
    ("driver", "expression", "place", "name"),
    [
        ("dranet.k8s.io", "true", "config[0].opaque.parameters", "dranet.k8s.io"),
        (
            "dra.net",
            'device.driver == "dranet"',
            "requests[0].exactly.selectors[0].cel.expression",
            "dranet",
        ),
        (
            "dra.net",
            'device.attributes["dra-net"].rdma',
            "requests[0].exactly.selectors[0].cel.expression",
            "dra-net",
        ),
        ("dra.networking", 'device.driver == "gce.dra.net"', "", ""),
    ],
)
def test_name_that_resembles_the_drivers_is_reported_as_a_warning(
    shim: Shim, driver: str, expression: str, place: str, name: str
) -> None:
    selected = f"deviceClassName: dranet, selectors: [{{cel: {{expression: '{expression}'}}}}]"
    template = TWO.replace("driver: dra.net", f"driver: {driver}").replace(
        "deviceClassName: dranet", selected
    )

    code, lines = validate(shim, template)

    text = f'warning: ResourceClaimTemplate named: spec.spec.devices.{place}: "{name}" is not the name of this driver; if it is meant, write dra.net'
    assert (code, lines) == (0, [text] if name else [])


def test_template_of_another_namespace_is_not_used(shim: Shim) -> None:
    elsewhere = TEMPLATE.replace("{name: one}", "{name: one, namespace: other}")

    code, lines = validate(shim, elsewhere, POD)

    assert code == 1
    assert "no ResourceClaimTemplate one of that namespace is among the files; " in lines[0]


@pytest.mark.parametrize("listing", ["", ", resources: {claims: [{name: net}]}"])
def test_container_without_a_gate_is_reported_as_a_warning(shim: Shim, listing: str) -> None:
    both = POD.replace("  - {name: main", "  - {name: side" + listing + "}\n  - {name: main")
    alone = both.replace("{name: main, resources: {claims: [{name: net}]}}", "{name: main}")

    code, lines = validate(shim, TEMPLATE, alone)

    assert code == 0
    assert [line.split("does not")[0] for line in lines] == [
        f"warning: Pod default/train: documents[1].spec: container {name} "
        for name in (["main"] if listing else ["side", "main"])
    ]


def test_interface_name_for_several_devices_is_reported(shim: Shim) -> None:
    code, lines = validate(shim, CLAIM.replace("{mtu: 4000}", NAMED))
    every = CLAIM.replace("{mtu: 4000}", NAMED).replace("count: 2", "allocationMode: All")

    assert code == 1
    assert [line.split(": is for")[0] for line in lines] == [
        'ResourceClaim default/fast: interface.name: "net1"',
        'ResourceClaim default/fast: interface.addresses: "192.0.2.10"',
    ]
    assert validate(shim, every) == (code, lines)


def test_only_documents_without_errors_are_listed_as_valid(shim: Shim) -> None:
    text = f"{CLAIM.replace('{mtu: 4000}', NAMED)}---\n{CLASS}"

    done = shim.run("validate", "-", stdin=text)

    assert done.stdout == "standard input: DeviceClass dranet is valid\n"


def test_interface_name_in_a_class_is_refused_for_several_devices(shim: Shim) -> None:
    parameters = "{interface: {name: net1}}"
    config = f"  config:\n  - opaque: {{driver: dra.net, parameters: {parameters}}}\n"

    assert validate(shim, CLAIM, CLASS + config)[0] == 1
    assert validate(shim, CLAIM.replace("count: 2", "count: 1"), CLASS + config)[0] == 0


def test_policy_is_refused_in_a_claim_and_accepted_in_a_class(shim: Shim) -> None:
    claim = CLAIM.replace("{mtu: 4000}", "{mtu: 4000}\n          policy: {name: mine}")
    config = "  config:\n  - opaque: {driver: dra.net, parameters: {policy: {name: mine}}}\n"

    code, lines = validate(shim, claim, CLASS)

    assert code == 1
    assert "policy: object with name: only a DeviceClass can have a policy; remove it" in lines[0]
    assert validate(shim, CLAIM, CLASS + config)[0] == 0


def test_interface_name_of_two_claims_of_a_pod_is_reported(shim: Shim) -> None:
    second = "  - {name: net2, resourceClaimTemplateName: named}\n  containers:"
    pod = POD.replace("TemplateName: one", "TemplateName: named").replace("  containers:", second)

    code, lines = validate(shim, TWO, pod)

    assert code == 1
    assert (
        'interface.name: "net1": is for request nic of claim net and request nic of claim net2'
        in (lines[0])
    )


def test_parameters_without_requests_apply_to_requests_of_our_driver(shim: Shim) -> None:
    gpus = "    - {name: gpus, exactly: {deviceClassName: gpu.example.com, count: 8}}\n    requests"
    claim = CLAIM.replace("{mtu: 4000}", NAMED).replace("count: 2", "count: 1")
    claim = claim.replace("      requests: [nics]\n", "").replace(
        "    - requests: [nics]\n      opaque", "    - opaque"
    )
    claim = claim.replace("    requests:\n", f"    requests:\n{gpus.rpartition('    ')[0]}")

    assert validate(shim, claim) == (0, [])
    assert validate(shim, claim.replace("gpu.example.com", "nic.dra.net"))[0] == 1


def test_unknown_attribute_is_reported(shim: Shim) -> None:
    misspelt = CLASS.replace('device.driver == "dra.net"', "'device.attributes[\"dra.net\"].Rdma'")
    claim = CLAIM.replace("resource.kubernetes.io/numaNode", "dra.net/numanode")

    code, lines = validate(shim, misspelt, claim)

    assert code == 1
    assert lines == [
        'DeviceClass dranet: documents[0].spec.selectors[0].cel.expression: dra.net has no attribute "Rdma" (did you mean "rdma"?); correct it',
        'ResourceClaim default/fast: documents[1].spec.devices.constraints[0].matchAttribute: dra.net has no attribute "numanode" (did you mean "numaNode"?); correct it',
    ]  # fmt: skip


def test_unknown_capacity_of_a_request_is_reported(shim: Shim) -> None:
    requests = "count: 2, capacity: {requests: {dra.net/bandwith: 10G, x.y/rate: 1}}"

    assert validate(shim, CLAIM.replace("count: 2", requests)) == (
        1,
        [
            'ResourceClaim default/fast: request nics: dra.net has no capacity "bandwith", only '
            '"bandwidth"; correct it'
        ],
    )


def test_claim_for_more_devices_than_it_can_hold_is_reported(shim: Shim) -> None:
    more = "    - {name: more, exactly: {deviceClassName: dranet, count: 31}}\n"
    claim = CLAIM.replace("    constraints:\n", f"{more}    constraints:\n")

    assert validate(shim, claim) == (
        1,
        [
            "ResourceClaim default/fast: requests 33 devices; a claim holds at most 32, use "
            "several claims"
        ],
    )


def test_different_classes_with_the_same_name_are_reported(shim: Shim) -> None:
    assert validate(shim, CLASS, CLASS.replace("==", "!=")) == (
        1,
        ["class dranet: given twice and different; keep one"],
    )


VLAN = "  config:\n  - opaque: {driver: dra.net, parameters: {interface: {vlan: {id: 7}}}}\n"
HINT = "; if DeviceClass dranet has what is missing, give its file"


def test_class_may_have_what_the_claim_lacks(shim: Shim) -> None:
    claim = CLAIM.replace("{mtu: 4000}", "{type: VLAN}")
    path = "spec.devices.config[0].opaque.parameters.interface.type"
    error = f'{path}: "VLAN": needs vlan.id; add it'

    assert validate(shim, claim) == (1, [f"ResourceClaim default/fast: {error}{HINT}"])
    assert validate(shim, claim, CLASS) == (
        1,
        [f"ResourceClaim default/fast: documents[0].{error}"],
    )
    assert validate(shim, claim, CLASS + VLAN) == (0, [])


def test_gateway_out_of_reach_is_reported(shim: Shim) -> None:
    route = "destination: 10.0.0.0/8, gateway: 192.0.2.1"
    claim = CLAIM.replace("destination: 10.9.0.0/16, scope: 253", route)
    far, near = (
        claim.replace("{mtu: 4000}", f"{{addresses: [{first}-{last}/24]}}")
        for first, last in (("198.51.100.5", "198.51.100.9"), ("192.0.2.5", "192.0.2.9"))
    )
    parameters = "{interface: {addresses: [198.51.100.5/24]}, routes: [{destination: 10.0.0.0/8, gateway: 192.0.2.1}]}"
    error = (
        'routes[0].gateway: "192.0.2.1": is in no network of interface.addresses; correct it, or '
        "add a route to it with scope 253"
    )

    path = "documents[0].spec.devices.config[0].opaque.parameters"
    assert validate(shim, far, CLASS) == (1, [f"ResourceClaim default/fast: {path}.{error}"])
    assert validate(shim, near, CLASS) == (0, [])
    assert validate(shim, far.replace("interface:", "profile: fast\n          interface:")) == (
        0,
        [],
    )
    assert validate(shim, parameters)[1] == [f"standard input: {error}"]
    assert validate(shim, parameters.replace("198.51.100.5", "192.0.2.5")) == (0, [])
