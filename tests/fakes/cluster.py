"""An API server and a node's inventory as Prepare sees them: documents in, documents out.

The documents have the shape that resource.k8s.io/v1 and v1 servers give, with the fields that a
driver passes over.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from dranet_nri.model import Device, DeviceKey, ObjectRef

POOL = "node-1"
Document = dict[str, Any]


def result(device: str, request: str = "nic", **fields: Any) -> Document:
    """Return one device of an allocation, by default of this driver."""
    return {
        "request": request, "driver": "dra.net", "pool": POOL, "device": device,
        "adminAccess": None, "tolerations": [{"operator": "Exists"}], "ofANewerServer": 1, **fields,
    }  # fmt: skip


def config(
    parameters: object, *requests: str, source: str = "FromClaim", driver: str = "dra.net"
) -> Document:
    """Return one entry of an allocation's config."""
    return {
        "source": source,
        "requests": list(requests),
        "opaque": {"driver": driver, "parameters": parameters},
    }


def user(pod: str, uid: str, **fields: Any) -> Document:
    """Return one entry of reservedFor."""
    return {"resource": "pods", "name": pod, "uid": uid, **fields}


def claim_document(
    name: str,
    uid: str,
    results: Sequence[Document],
    users: Sequence[Document],
    configs: Iterable[Document] = (),
    annotations: Mapping[str, str] | None = None,
) -> Document:
    """Return a claim as a server has it once it is allocated and reserved."""
    metadata: Document = {"namespace": "ai", "name": name, "uid": uid, "resourceVersion": "7"}
    if annotations is not None:
        metadata["annotations"] = dict(annotations)
    allocation = {
        "devices": {"results": list(results), "config": list(configs)},
        "nodeSelector": {"nodeSelectorTerms": []},
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": [{"name": "nic", "ofANewerServer": {}}]}},
        "status": {"allocation": allocation, "reservedFor": list(users)},
    }


def pod_document(
    name: str,
    uid: str,
    claims: Mapping[str, str],
    containers: Mapping[str, Sequence[Document]] | None = None,
    **spec: Any,
) -> Document:
    """Return a pod.

    Args:
        name: its name.
        uid: its UID.
        claims: entry of spec.resourceClaims → the claim that it names.
        containers: container → its resources.claims; one that lists all claims if not given.
        spec: further fields of spec.
    """
    listed = (
        containers if containers is not None else {"main": [{"name": claim} for claim in claims]}
    )
    return {
        "metadata": {"namespace": "ai", "name": name, "uid": uid},
        "spec": {
            "resourceClaims": [
                {"name": entry, "resourceClaimName": claim} for entry, claim in claims.items()
            ],
            "containers": [
                {"name": container, "resources": {"claims": list(entries), "limits": {}}}
                for container, entries in listed.items()
            ],
            **spec,
        },
        "status": {"phase": "Pending"},
    }


class FakeCluster:
    """Serves claims, pods and devices; a test changes its attributes as people change a cluster.

    Attributes:
        claims, pods: documents by name; all are of namespace "ai".
        nics: names of the devices that the node publishes.
        failures: raised by the next reads of claims, one each; None lets one go well.
        reads: names of the claims that were read, in order.
        claim_read, scanned: set with each read of a claim, and each scan of devices.
        scan_unblocked: while it is cleared, a scan of devices waits.
    """

    def __init__(self) -> None:
        """Start without anything."""
        self.claims: dict[str, Document] = {}
        self.pods: dict[str, Document] = {}
        self.nics: set[str] = set()
        self.failures: list[Exception | None] = []
        self.reads: list[str] = []
        self.claim_read = asyncio.Event()
        self.scanned = asyncio.Event()
        self.scan_unblocked = asyncio.Event()
        self.scan_unblocked.set()
        self._answers_resumed: asyncio.Event | None = None

    def add(
        self, name: str, uid: str, *devices: str, pod: str = "train", pod_uid: str = "p1"
    ) -> ObjectRef:
        """Add devices, a claim that has them, and the one pod that has the claim."""
        self.nics |= set(devices)
        self.claims[name] = claim_document(
            name, uid, [result(device) for device in devices], [user(pod, pod_uid)]
        )
        current = self.pods.get(pod)
        entries = {entry["name"]: entry["resourceClaimName"] for entry in _entries(current)}
        self.pods[pod] = pod_document(pod, pod_uid, {**entries, name: name})
        return ObjectRef("ai", name, uid)

    def stop_answering(self) -> None:
        """Answer no read of a claim until resume_answering."""
        self._answers_resumed = asyncio.Event()

    def resume_answering(self) -> None:
        """Answer again, waiting reads included."""
        if self._answers_resumed is not None:
            self._answers_resumed.set()
        self._answers_resumed = None

    async def claim(self, ref: ObjectRef) -> Mapping[str, object] | None:
        """See ClaimSource."""
        self.reads.append(ref.name)
        self.claim_read.set()
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        if self._answers_resumed is not None:
            await self._answers_resumed.wait()
        assert ref.namespace == "ai"
        return self.claims.get(ref.name)

    async def pod(self, ref: ObjectRef) -> Mapping[str, object] | None:
        """See PodSource."""
        assert ref.namespace == "ai"
        return self.pods.get(ref.name)

    async def devices(self, names: Collection[str]) -> Mapping[str, Device]:
        """See DeviceSource."""
        self.scanned.set()
        await self.scan_unblocked.wait()
        return {name: nic(name) for name in names if name in self.nics}

    def conflicts(self) -> Mapping[str, frozenset[str]]:
        """See NodeSource. Function 0 of a card is the PF of its others, by the names."""
        cards = {name: name.rpartition("-")[0] for name in self.nics if name.startswith("pci-")}
        return {
            name: frozenset(
                other
                for other, card in cards.items()
                if card == own and name != other and "-0" in {name[-2:], other[-2:]}
            )
            for name, own in cards.items()
        }


def nic(name: str) -> Device:
    """Return a NIC with an interface, and with an RDMA device if it is called "hca…"."""
    facts = (("dra.net/encapsulation", "ether"), ("dra.net/ifName", f"if-{name}"[:15]))
    key = DeviceKey("pci", "0000:01:00.0", f"if-{name}"[:15], "0000:01:00.0")
    return Device(name, key, facts, ("mlx5_0",) if name.startswith("hca") else ())


def _entries(pod: Document | None) -> list[Document]:
    return list(pod["spec"]["resourceClaims"]) if pod else []
