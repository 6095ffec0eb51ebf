"""Manifests of the verification, and the NICs of its pods by claims and slices."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from dra_shim.verify.types import ClaimedNic, Fabric, WorkerPod
from dranet_nri.config import ConfigEntry, ConfigSource, select_config
from dranet_nri.errors import ConfigError
from dranet_nri.model import DRIVER_NAME, Addressing

Document = dict[str, Any]
API: Final = "resource.k8s.io/v1"
STANDARD: Final = "resource.kubernetes.io"
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
# Objects that end with their namespace, and that pods need: such as a Secret for a registry.
OTHER_KINDS: Final = frozenset(
    {"ConfigMap", "NetworkPolicy", "ResourceClaimTemplate", "Secret", "ServiceAccount"}
)
# RDMA protocol: fabric. The kernel reports none for EFA.
_FABRICS: Final = {"ib": Fabric.INFINIBAND, "": Fabric.EFA}
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
    """Requirements of the pods of the verification.

    Attributes:
        image: image with the measuring tools, or with apt-get to install them.
        device_class: DeviceClass of the NICs.
        nics: number of NICs that a pod claims, 0 for all of the node.
        gpu_class: DeviceClass of the GPUs.
        gpus: number of GPUs that a pod claims.
        program: program of the collectives, "" for none.
        base: a Pod with further requirements: volumes, environment, affinity.
        others: objects that this Pod refers to.
    """

    image: str
    device_class: str
    nics: int
    gpu_class: str
    gpus: int
    program: str = ""
    base: Document = field(default_factory=dict)
    others: Sequence[Document] = ()


def base_documents(text: str) -> tuple[Document, list[Document]]:
    """Return the Pod of a file, and the objects of its namespace in the other documents.

    Raises:
        ConfigError: the text is not YAML, it has not one Pod with one container that has an image,
            or an object of another kind than `OTHER_KINDS`.
    """
    try:
        documents = [found for found in yaml.safe_load_all(text) if found is not None]
        (pod,) = (found for found in documents if found["kind"] == "Pod")
        (container,) = pod["spec"]["containers"]
        others = [_created_again(found) for found in documents if found["kind"] in OTHER_KINDS]
        if container["image"] and len(others) == len(documents) - 1:
            return dict(pod), others
    except (yaml.YAMLError, KeyError, TypeError, ValueError):
        pass
    raise ConfigError(
        [
            "give one document of kind Pod, whose one container has `image`; others may be of kind "
            f"{', '.join(sorted(OTHER_KINDS))}"
        ]
    )


def _created_again(document: Document) -> Document:
    """Return an object without its namespace, and without what the API server added to it."""
    metadata = document["metadata"]
    kept = {key: metadata[key] for key in ("name", "labels", "annotations") if key in metadata}
    return {**document, "metadata": kept}


def namespace_document(name: str) -> Document:
    """Return the namespace; its pods have capabilities beyond the baseline policy."""
    labels = {
        "app.kubernetes.io/name": "dranet-verify",
        "pod-security.kubernetes.io/enforce": "privileged",
    }
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def template_document(requirements: PodRequirements, version: str = API) -> Document:
    """Return the template of the claims.

    Args:
        requirements: what each pod claims.
        version: of the API, as the cluster's slices have it.
    """
    # Without the toleration, a pod would wait where one NIC has no carrier: `All` takes no fewer.
    nic: Document = {
        "deviceClassName": requirements.device_class,
        "tolerations": [{"operator": "Exists"}],
    }
    nic |= {"count": requirements.nics} if requirements.nics else {"allocationMode": "All"}
    devices = {"nic": nic}
    if requirements.gpus:
        devices["gpu"] = {"deviceClassName": requirements.gpu_class, "count": requirements.gpus}
    flat = version.endswith("/v1beta1")
    requests = [
        {"name": name, **(fields if flat else {"exactly": fields})}
        for name, fields in devices.items()
    ]
    return {
        "apiVersion": version,
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


def is_reported(claim: Document) -> bool:
    """Return whether the status of a claim has all its NICs."""
    status = claim.get("status", {})
    results = status.get("allocation", {}).get("devices", {}).get("results", [])
    reported = {_key(state) for state in status.get("devices", [])}
    return {_key(found) for found in results if found["driver"] == DRIVER_NAME} <= reported


def worker_of(pod: Document, claim: Document, slices: Sequence[Document]) -> WorkerPod:
    """Return a pod with its NICs, by its claim and the slices.

    Args:
        pod: the pod as JSON.
        claim: its claim.
        slices: all slices of the cluster.
    """
    by_device = dict(_devices(slices))
    nodes_of_place = _numa_nodes_of_places(slices, pod["spec"]["nodeName"])
    status = claim.get("status", {})
    allocated = status.get("allocation", {}).get("devices", {})
    configs = list(_configs(allocated.get("config", [])))
    states = {_key(state): state for state in status.get("devices", [])}
    nics: list[ClaimedNic] = []
    gpu_numa_nodes: list[int] = []
    for result in allocated.get("results", []):
        attributes = by_device.get(_key(result), {})
        if result["driver"] == DRIVER_NAME:
            mtu = _mtu(configs, result.get("request", ""), attributes)
            nics.append(_nic(result["device"], attributes, states.get(_key(result), {}), mtu))
        else:
            gpu_numa_nodes += _gpu_numa_nodes(result["driver"], attributes, nodes_of_place)
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
                name if "/" in name else f"{spec['driver']}/{name}": _first(value)
                for name, value in device.get("basic", device).get("attributes", {}).items()
            }
            yield (spec["driver"], spec["pool"]["name"], device["name"]), attributes


def _first(attribute: Document) -> object:
    """Return the value of an attribute; of a list (numaNode with a feature gate), the first."""
    (value,) = attribute.values()
    return value[0] if isinstance(value, list) else value


def _numa_node(driver: str, attributes: Document) -> int:
    """Return the NUMA node that a driver publishes of a device, -1 if none."""
    for name in (f"{STANDARD}/numaNode", f"{driver}/numaNode"):
        if name in attributes:
            return int(attributes[name])
    return -1


def _numa_nodes_of_places(slices: Sequence[Document], node: str) -> Mapping[str, set[int]]:
    """Return the NUMA nodes of NICs, by their PCIe root and by the PCI domains of GPUs near them.

    NVIDIA's driver publishes no NUMA nodes of GPUs.
    """
    found: dict[str, set[int]] = {}
    of_node = [document for document in slices if document["spec"].get("nodeName") == node]
    for (driver, _, _), attributes in _devices(of_node):
        numa_node = _numa_node(driver, attributes)
        if driver == DRIVER_NAME and numa_node >= 0:
            domains = str(attributes.get("azure.dra.net/gpuDomains", "")).split(",")
            for place in (str(attributes.get(f"{STANDARD}/pcieRoot", "")), *domains):
                found.setdefault(place, set()).add(numa_node)
    return found


def _gpu_numa_nodes(
    driver: str, attributes: Document, nodes_of_place: Mapping[str, set[int]]
) -> set[int]:
    """Return the NUMA node of a GPU; nothing if it is not known."""
    numa_node = _numa_node(driver, attributes)
    if numa_node >= 0:
        return {numa_node}
    domain = str(attributes.get(f"{STANDARD}/pciBusID", "")).partition(":")[0]
    places = {str(attributes.get(f"{STANDARD}/pcieRoot", "")), domain} - {""}
    nodes = {node for place in places for node in nodes_of_place.get(place, ())}
    return nodes if len(nodes) == 1 else set()


def _configs(entries: Sequence[Document]) -> Iterator[ConfigEntry]:
    """Yield the parameters of class and claim for this driver."""
    for entry in entries:
        opaque = entry.get("opaque", {})
        if opaque.get("driver") == DRIVER_NAME:
            requests = tuple(entry.get("requests", ()))
            source = ConfigSource(entry["source"])
            yield ConfigEntry(source, DRIVER_NAME, opaque["parameters"], requests)


def _mtu(configs: Sequence[ConfigEntry], request: str, attributes: Document) -> int:
    """Return the MTU of a NIC by claim or slice, 0 if a DHCP server may set it."""
    try:
        interface = select_config(configs, request).interface
    except ConfigError:  # the driver on the node has another version
        return 0
    if interface.mtu is not None:
        return interface.mtu
    if interface.addressing is Addressing.DHCP:
        return 0
    return int(attributes.get(f"{DRIVER_NAME}/mtu", 0))


def _nic(name: str, attributes: Document, state: Document, mtu: int) -> ClaimedNic:
    data = state.get("networkData", {})
    addresses = [cidr.partition("/")[0] for cidr in data.get("ips", [])]
    protocol = attributes.get(f"{DRIVER_NAME}/rdmaProtocol", "")
    rdma = str(attributes.get(f"{DRIVER_NAME}/rdmaDevice", ""))
    fabric = _FABRICS.get(protocol, Fabric.ROCE) if rdma else Fabric.ETHERNET
    return ClaimedNic(
        name,
        data.get("interfaceName", ""),
        next((text for text in addresses if not text.startswith("fe80:")), ""),
        rdma,
        fabric,
        mtu,
        _numa_node(DRIVER_NAME, attributes),
        _card(name, attributes),
    )


def _card(name: str, attributes: Document) -> str:
    """Return the identity of the card of a device; its device name if that is unknown."""
    address = str(attributes.get(f"{DRIVER_NAME}/pciAddress", ""))
    return str(attributes.get(f"{DRIVER_NAME}/sysImageGUID") or address.rpartition(".")[0] or name)
