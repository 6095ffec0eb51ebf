"""A real server takes what manifests/ installs; the shim may do what it needs and no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml

from dra_shim.commands.doctor_checks import RIGHTS
from dra_shim.daemon.sources import ServerSource
from dra_shim.kubeapi import (
    CLAIM,
    EVENT,
    SLICE,
    ApiClient,
    ApiError,
    ConflictError,
    RejectedError,
    uid_of,
)
from dranet_nri.model import ObjectRef
from tests.box.waiting import wait_until
from tests.dra_shim.resourceslice.publisher_bench import Bench
from tests.dra_shim.resourceslice.test_contract import plain
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.installed import BASE, MANIFESTS, Installed, Shim
from tests.system.cluster.workload import RESOURCES, SLICES, Workload, slice_of

OVERLAYS = sorted(path.parent for path in MANIFESTS.glob("overlays/*/kustomization.yaml"))
OTHER = r"dranet on node \S+ may only write ResourceSlices of dra\.net for that node"
# What every account may do is in these groups.
EVERYBODYS = {"authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io"}
# Of the shape of what dranet's users have.
DRANET_DAEMONSET = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: dranet, namespace: kube-system}
spec:
  selector: {matchLabels: {app: dranet}}
  template:
    metadata: {labels: {app: dranet}}
    spec:
      hostNetwork: true
      serviceAccountName: dranet
      initContainers: [{name: setup, image: localhost/theirs}]
      containers:
      - name: dranet
        image: localhost/theirs
        securityContext: {capabilities: {add: [SYS_MODULE]}}
        volumeMounts: [{name: db, mountPath: /var/run/dranet}]
      volumes: [{name: db, hostPath: {path: /var/run/dranet}}]
"""


@pytest.fixture(scope="module")
def nodes(cluster: ControlPlane) -> Iterator[tuple[Workload, Workload]]:
    """Return two nodes."""
    both = Workload(cluster), Workload(cluster)
    for document in both:
        document.create()
    yield both
    for document in both:
        document.delete()


@pytest.fixture(scope="module")
def installed(
    cluster: ControlPlane,
    nodes: tuple[Workload, Workload],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Installed]:
    """Return the base, installed for two nodes; the server enforces its policies."""
    installed = Installed(cluster, tmp_path_factory.mktemp("accounts"))
    installed.apply()
    nobody = installed.shim()
    wait_until("the policies to be enforced", lambda: is_enforced(nobody))
    yield installed
    installed.remove()


@pytest.fixture(scope="module")
def shim(installed: Installed, nodes: tuple[Workload, Workload]) -> Shim:
    """Return the server as the shim of the first node sees it."""
    return installed.shim(nodes[0].name)


# ------------------------------------------------------------------- applying


@pytest.mark.every_kubernetes
@pytest.mark.parametrize("what", [BASE, *OVERLAYS], ids=lambda path: path.name)
def test_server_keeps_every_field_of_the_manifests(
    cluster: ControlPlane, installed: Installed, what: Path
) -> None:
    try:
        cluster.kubectl("apply", f"--kustomize={what}", "--dry-run=server", "--validate=strict")
        installed.apply(what)
        stored = json.loads(cluster.kubectl("get", f"--kustomize={what}", "--output=json"))["items"]
    finally:
        installed.apply()

    rendered = list(yaml.safe_load_all(cluster.kubectl("kustomize", str(what))))
    assert _missing(rendered, stored) == []


def test_daemonset_of_dranet_is_replaced_in_place(
    cluster: ControlPlane, installed: Installed
) -> None:
    cluster.kubectl("apply", "--filename=-", stdin=DRANET_DAEMONSET)

    installed.apply()

    pod = installed.daemon_set()["spec"]["template"]["spec"]
    assert "initContainers" not in pod
    assert [container["name"] for container in pod["containers"]] == ["dranet", "nri"]
    assert "SYS_MODULE" not in str(pod)
    assert "db" not in {volume["name"] for volume in pod["volumes"]}


def test_server_accepts_the_admission_policies(cluster: ControlPlane, installed: Installed) -> None:
    def warnings() -> list[Any] | None:
        group = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
        policies = [entry for entry in cluster.api().get(group)["items"] if _is_of_driver(entry)]
        if any("typeChecking" not in policy.get("status", {}) for policy in policies):
            return None
        return [policy["status"]["typeChecking"] for policy in policies]

    wait_until("the server to check the policies' types", lambda: warnings() is not None)
    assert warnings() == [{}, {}]


def test_daemonset_has_one_pod_per_node(
    installed: Installed, nodes: tuple[Workload, Workload]
) -> None:
    def expected() -> int:
        return int(installed.daemon_set()["status"]["desiredNumberScheduled"])

    wait_until("the DaemonSet to know its nodes", lambda: expected() >= len(nodes))


# ------------------------------------------------------------------- its own node


def test_shim_publishes_slices_of_its_node(shim: Shim, nodes: tuple[Workload, Workload]) -> None:
    node = nodes[0]

    async def work(api: ApiClient) -> list[int]:
        published = []
        for devices in (["nic0"], ["nic0", "nic1"]):
            bench = Bench(api, node.name)
            async with bench.running():
                published.append((await bench.publish(plain(node.name, *devices))).devices)
        return published

    assert shim.asks(work) == [1, 2]
    published = [
        document
        for document in node.api.get(SLICES)["items"]
        if document["spec"]["nodeName"] == node.name
    ]
    assert [len(resource_slice["spec"]["devices"]) for resource_slice in published] == [2]


def test_shim_can_read_claims_and_pods(
    shim: Shim, installed: Installed, nodes: tuple[Workload, Workload]
) -> None:
    claim = new_claim(nodes[0])
    pod = ObjectRef("kube-system", f"shim-{nodes[0].name}", claim.uid)

    async def work(api: ApiClient) -> tuple[Any, Any]:
        source = ServerSource(api)
        return await source.claim(claim), await source.pod(pod)

    found = shim.asks(work)

    assert [document["metadata"]["name"] for document in found] == [claim.name, pod.name]


def test_shim_can_create_events(shim: Shim, nodes: tuple[Workload, Workload]) -> None:
    space = nodes[0].name
    event = {
        "metadata": {"name": "failed", "namespace": space},
        "involvedObject": {"kind": "Pod", "namespace": space, "name": "train"},
        "reason": "NetworkDeviceAttachFailed",
        "count": 1,
    }

    async def work(api: ApiClient) -> Any:
        await api.create(EVENT, event, space)
        told = dict(await api.get(EVENT, "failed", space))
        return await api.replace(EVENT, told | {"count": 2}, space)

    assert shim.asks(work)["count"] == 2


# ------------------------------------------------------------------- and no other


@pytest.mark.parametrize("field", ["nodeName", "driver"])
def test_slice_of_another_node_or_driver_is_refused(
    shim: Shim, nodes: tuple[Workload, Workload], field: str
) -> None:
    document = fresh(nodes[0].name)
    document["spec"][field] = {"nodeName": nodes[1].name, "driver": "gpu.example.com"}[field]

    with pytest.raises(RejectedError, match=OTHER):
        shim.asks(lambda api: api.create(SLICE, document))


def test_slice_for_all_nodes_is_refused(shim: Shim, nodes: tuple[Workload, Workload]) -> None:
    document = fresh(nodes[0].name)
    del document["spec"]["nodeName"]
    document["spec"]["allNodes"] = True

    with pytest.raises(RejectedError, match=OTHER):
        shim.asks(lambda api: api.create(SLICE, document))


def test_slice_in_the_pool_of_another_node_is_refused(
    shim: Shim, nodes: tuple[Workload, Workload]
) -> None:
    document = fresh(nodes[0].name)
    document["spec"]["pool"]["name"] = nodes[1].name

    with pytest.raises(RejectedError, match="in the pool of its name"):
        shim.asks(lambda api: api.create(SLICE, document))


def test_slice_of_another_node_cannot_be_changed_or_deleted(
    shim: Shim, nodes: tuple[Workload, Workload]
) -> None:
    other_slice = nodes[1].api.get(f"{SLICES}/{nodes[1].name}")
    changed = other_slice | {"spec": other_slice["spec"] | {"devices": []}}

    with pytest.raises(RejectedError, match=OTHER):
        shim.asks(lambda api: api.replace(SLICE, changed))
    with pytest.raises(RejectedError, match=OTHER):
        shim.asks(lambda api: api.delete(SLICE, nodes[1].name, uid_of(other_slice)))


def test_token_without_a_node_cannot_write_slices(
    installed: Installed, nodes: tuple[Workload, Workload]
) -> None:
    with pytest.raises(RejectedError, match="the token names no node"):
        installed.shim().asks(lambda api: api.create(SLICE, fresh(nodes[0].name)))


# ------------------------------------------------------------------- claims


def test_shim_can_write_device_status_of_its_node(
    shim: Shim, nodes: tuple[Workload, Workload]
) -> None:
    claim = allocated(nodes[0])

    answer: Any = shim.asks(lambda api: report(api, claim, nodes[0].name))

    assert [device["device"] for device in answer["status"]["devices"]] == ["nic0"]


def test_shim_of_another_node_cannot_write_device_status(
    shim: Shim, nodes: tuple[Workload, Workload]
) -> None:
    claim = allocated(nodes[1])

    with pytest.raises(ApiError, match="arbitrary-node:"):
        shim.asks(lambda api: report(api, claim, nodes[1].name))


def test_shim_cannot_allocate_claims(shim: Shim, nodes: tuple[Workload, Workload]) -> None:
    claim = new_claim(nodes[0])
    document = {
        "metadata": {"name": claim.name, "uid": claim.uid},
        "status": {"allocation": allocation(nodes[0].name)},
    }

    with pytest.raises(ApiError, match="resourceclaims/binding"):
        shim.asks(lambda api: api.apply(CLAIM, document, "dra.net", claim.namespace, "status"))


# ------------------------------------------------------------------- rights


def test_shim_has_exactly_the_documented_rights(
    cluster: ControlPlane, installed: Installed
) -> None:
    review = {"spec": {"namespace": "default"}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    rules = cluster.api(installed.shim().token).create(path, review)["status"]["resourceRules"]

    rights = {
        (resource, verb, *rule.get("resourceNames", ()))
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if not EVERYBODYS & {*rule["apiGroups"]}
    }

    assert rights == {
        (right.resource, right.verb, *((right.name,) if right.name else ())) for right in RIGHTS
    }


def is_enforced(nobody: Shim) -> bool:
    """Whether the server asks the policy for slices; nobody has a token without a node."""
    document = fresh("none")
    with suppress(ConflictError):
        try:
            created = nobody.asks(lambda api: api.create(SLICE, document, dry_run=True))
        except RejectedError as error:
            return "the token names no node" in str(error)
        assert created
    return False


def fresh(node: str) -> Any:
    """Return a new slice of a node."""
    document = slice_of(node, {"devices": [{"name": "nic0"}]})
    document["metadata"]["name"] = f"{node}-dra.net-{uuid4().hex[:8]}"
    return document


def new_claim(workload: Workload) -> ObjectRef:
    """Create a claim in the workload's namespace."""
    name = f"claim-{uuid4().hex[:8]}"
    request = {"name": "nic", "exactly": {"deviceClassName": "dranet"}}
    document = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    path = f"{RESOURCES}/namespaces/{workload.name}/resourceclaims"
    made = workload.api.create(path, document)["metadata"]
    return ObjectRef(workload.name, name, made["uid"])


def allocated(workload: Workload, gpu: str = "") -> ObjectRef:
    """Return a claim of a workload that was given nic0 of its node, and one of a driver of GPUs."""
    claim = new_claim(workload)
    path = f"{RESOURCES}/namespaces/{workload.name}/resourceclaims/{claim.name}"
    document = workload.api.get(path)
    document["status"] = {"allocation": allocation(workload.name)}
    results = document["status"]["allocation"]["devices"]["results"]
    results.extend({**result, "driver": gpu} for result in tuple(results) if gpu)
    workload.api.replace(f"{path}/status", document)
    return claim


def allocation(node: str) -> Any:
    """Return an allocation of nic0 of a node, as the scheduler writes it."""
    result = {"request": "nic", "driver": "dra.net", "pool": node, "device": "nic0"}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"devices": {"results": [result]}, "nodeSelector": selector}


async def report(api: ApiClient, claim: ObjectRef, node: str) -> object:
    """Apply to a claim what became of nic0 of a node."""
    device = {"driver": "dra.net", "pool": node, "device": "nic0"}
    document = {
        "metadata": {"name": claim.name, "uid": claim.uid},
        "status": {"devices": [device]},
    }
    return await api.apply(CLAIM, document, "dra.net", claim.namespace, "status")


def _is_of_driver(policy: Any) -> bool:
    return bool(policy["metadata"].get("labels", {}).get("app") == "dranet")


def _missing(expected: Any, stored: Any, path: str = "") -> list[str]:
    """Return the paths of what is wanted and not kept; the server may add."""
    if isinstance(expected, dict) and isinstance(stored, dict):
        return [
            entry
            for key, value in expected.items()
            for entry in _missing(value, stored.get(key), f"{path}.{key}")
        ]
    if isinstance(expected, list) and isinstance(stored, list) and len(expected) == len(stored):
        pairs = enumerate(zip(expected, stored, strict=True))
        return [
            entry for n, (one, other) in pairs for entry in _missing(one, other, f"{path}[{n}]")
        ]
    return [] if expected == stored else [f"{path}: {expected!r} became {stored!r}"]
