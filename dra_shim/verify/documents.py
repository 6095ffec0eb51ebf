"""Manifests of the verification, and the NICs of its pods by claims and slices."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from dra_shim.verify.types import ClaimedNic, Fabric, WorkerPod
from dranet_nri.errors import ConfigError
from dranet_nri.model import DRIVER_NAME

Document = dict[str, Any]
CLAIM: Final = "nics"
READY: Final = "/tmp/tools-ready"  # noqa: S108 - a file of the pod's own
PACKAGES: Final = "iproute2 iputils-ping iperf3 perftest rdmacm-utils ibverbs-providers"
# An image with the tools starts at once; in an image of a distribution they are installed.
START: Final = f"""
for tool in ip ping iperf3 rping ib_write_bw; do
    command -v $tool >/dev/null && continue
    apt-get -qq update && apt-get -qq install -y --no-install-recommends {PACKAGES} >/dev/null
    break
done
touch {READY}
exec sleep infinity
"""
PROGRAM: Final = "collectives.py"
PROGRAM_PATH: Final = f"/opt/collectives/{PROGRAM}"
# Volumes with their mounts: the program, and memory for ranks of one pod.
_VOLUMES: Final = (
    (
        {"name": "collectives", "configMap": {"name": "collectives"}},
        {"name": "collectives", "mountPath": "/opt/collectives"},
    ),
    (
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - a volume of the pod's own
    ),
)


@dataclass(frozen=True, slots=True)
class PodRequirements:
    """Requirements of each pod of the verification.

    Attributes:
        image: image with the measuring tools, or with apt-get to install them.
        device_class: DeviceClass of the NICs.
        nics: number of NICs that a pod claims, 0 for all of the node.
        gpu_class: DeviceClass of the GPUs.
        gpus: number of GPUs that a pod claims.
        program: program of the collectives, "" for none.
        base: a Pod with further requirements: volumes, environment, tolerations.
    """

    image: str
    device_class: str
    nics: int
    gpu_class: str
    gpus: int
    program: str = ""
    base: Document = field(default_factory=dict)


def base_pod(text: str) -> Document:
    """Return the Pod of a file.

    Raises:
        ConfigError: the text is not YAML, or not one Pod with one container that has an image.
    """
    try:
        pod = yaml.safe_load(text)
        (container,) = pod["spec"]["containers"]
        if pod["kind"] == "Pod" and container["image"]:
            return dict(pod)
    except (yaml.YAMLError, KeyError, TypeError, ValueError):
        pass
    raise ConfigError(["give one document of kind Pod, whose one container has `image`"])


def namespace_document(name: str) -> Document:
    """Return the namespace; its pods have capabilities beyond the baseline policy."""
    labels = {
        "app.kubernetes.io/name": "dranet-verify",
        "pod-security.kubernetes.io/enforce": "privileged",
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def template_document(requirements: PodRequirements) -> Document:
    """Return the template of the claims."""
    nic: Document = {"deviceClassName": requirements.device_class}
    nic |= {"count": requirements.nics} if requirements.nics else {"allocationMode": "All"}
    requests: list[Document] = [{"name": "nic", "exactly": nic}]
    if requirements.gpus:
        gpu = {"deviceClassName": requirements.gpu_class, "count": requirements.gpus}
        requests.append({"name": "gpu", "exactly": gpu})
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": CLAIM},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }


def program_document(program: str) -> Document:
    """Return the ConfigMap with the program of the collectives."""
    data = {PROGRAM: program}
    return {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "collectives"}, "data": data,
    }  # fmt: skip


def pod_document(name: str, node: str, requirements: PodRequirements) -> Document:
    """Return a pod on a node; the scheduler places it, because it allocates the claim."""
    spec: Document = deepcopy(requirements.base.get("spec") or {})
    (container,) = spec.get("containers") or [{}]
    volumes = _VOLUMES if requirements.program else ()
    affinity = _affinity_of(node)
    spec |= {
        "affinity": {**spec.get("affinity", {}), "nodeAffinity": affinity},
        "automountServiceAccountToken": False,
        "containers": [_container(container, requirements)],
        "resourceClaims": [
            *spec.get("resourceClaims", ()),
            {"name": CLAIM, "resourceClaimTemplateName": CLAIM},
        ],
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"operator": "Exists"}],
        "volumes": [*spec.get("volumes", ()), *(volume for volume, _ in volumes)],
    }
    base = requirements.base.get("metadata") or {}
    labels = {**base.get("labels", {}), "app.kubernetes.io/name": "dranet-verify"}
    metadata = {"name": name, "labels": labels, "annotations": base.get("annotations", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _affinity_of(node: str) -> Document:
    """Return the affinity that binds a pod to a node."""
    name = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = [{"matchFields": [name]}]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}


def _container(base: Document, requirements: PodRequirements) -> Document:
    """Return the container, merged with that of the base Pod."""
    volumes = _VOLUMES if requirements.program else ()
    security = base.get("securityContext", {})
    added = security.get("capabilities", {}).get("add", ())
    resources = base.get("resources", {})
    return {
        **base,
        "name": "verify",
        "image": requirements.image or base["image"],
        "command": ["sh", "-c", START],
        # ping needs NET_RAW. The limit of locked memory stays that of the runtime.
        "securityContext": {**security, "capabilities": {"add": sorted({*added, "NET_RAW"})}},
        "readinessProbe": {"exec": {"command": ["test", "-e", READY]}, "periodSeconds": 2},
        "resources": {**resources, "claims": [*resources.get("claims", ()), {"name": CLAIM}]},
        "volumeMounts": [*base.get("volumeMounts", ()), *(mount for _, mount in volumes)],
    }


def nodes_of(slices: Sequence[Document]) -> list[str]:
    """Return the nodes that publish devices of this driver, sorted."""
    specs = (document["spec"] for document in slices)
    return sorted(
        {
            spec["nodeName"]
            for spec in specs
            if spec["driver"] == DRIVER_NAME and spec.get("nodeName") and spec.get("devices")
        }
    )


def worker_of(pod: Document, claim: Document, slices: Sequence[Document]) -> WorkerPod:
    """Return a pod with its NICs, by its claim and the slices.

    Args:
        pod: the pod as JSON.
        claim: its claim.
        slices: all slices of the cluster.
    """
    by_device = dict(_devices(slices))
    status = claim.get("status", {})
    results = status.get("allocation", {}).get("devices", {}).get("results", [])
    states = {_key(state): state for state in status.get("devices", [])}
    nics, gpu_numa_nodes = [], []
    for result in results:
        attributes = by_device.get(_key(result), {})
        if result["driver"] == DRIVER_NAME:
            nics.append(_nic(result["device"], attributes, states.get(_key(result), {})))
        elif (node := attributes.get("resource.kubernetes.io/numaNode")) is not None:
            gpu_numa_nodes.append(int(node))
    return WorkerPod(
        pod["metadata"]["name"],
        pod["spec"]["nodeName"],
        pod["status"]["podIP"],
        tuple(sorted(nics, key=lambda nic: (nic.interface, nic.device))),
        tuple(sorted(set(gpu_numa_nodes))),
    )


def _key(device: Mapping[str, Any]) -> tuple[str, str, str]:
    return device["driver"], device["pool"], device["device"]


def _devices(slices: Sequence[Document]) -> Iterator[tuple[tuple[str, str, str], Document]]:
    """Yield ((driver, pool, device), attributes by qualified name) of each device."""
    for document in slices:
        spec = document["spec"]
        for device in spec.get("devices", []):
            attributes = {
                name if "/" in name else f"{spec['driver']}/{name}": next(iter(value.values()))
                for name, value in device.get("attributes", {}).items()
            }
            yield (spec["driver"], spec["pool"]["name"], device["name"]), attributes


def _nic(name: str, attributes: Document, state: Document) -> ClaimedNic:
    data = state.get("networkData", {})
    addresses = [cidr.partition("/")[0] for cidr in data.get("ips", [])]
    protocol = attributes.get(f"{DRIVER_NAME}/rdmaProtocol", "")
    rdma = str(attributes.get(f"{DRIVER_NAME}/rdmaDevice", ""))
    fabric = Fabric.ETHERNET
    if rdma:
        fabric = Fabric.INFINIBAND if protocol == "ib" else Fabric.ROCE
    numa_node = attributes.get("resource.kubernetes.io/numaNode")
    if numa_node is None:
        numa_node = attributes.get(f"{DRIVER_NAME}/numaNode", -1)
    return ClaimedNic(
        name,
        data.get("interfaceName", ""),
        next((text for text in addresses if not text.startswith("fe80:")), ""),
        rdma,
        fabric,
        int(attributes.get(f"{DRIVER_NAME}/mtu", 0)),
        int(numa_node),
        _card(name, attributes),
    )


def _card(name: str, attributes: Document) -> str:
    """Return the identity of the card of a device; its device name if that is unknown."""
    address = str(attributes.get(f"{DRIVER_NAME}/pciAddress", ""))
    return str(attributes.get(f"{DRIVER_NAME}/sysImageGUID") or address.rpartition(".")[0] or name)
