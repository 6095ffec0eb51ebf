"""Pod from the API server: its name for a claim, and the containers that list the claim."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dra_shim.resourceapi.allocated_claim import AllocatedClaim
from dranet_nri.config import Node, Violations
from dranet_nri.config.json_cursor import Fields, given, items_of, object_of, required, text_of
from dranet_nri.model import ContainerClaim

_ENDED: Final = frozenset({"Succeeded", "Failed"})
_CONTAINERS: Final = ("initContainers", "containers")  # ephemeral containers cannot have claims


@dataclass(frozen=True, slots=True)
class PodUse:
    """Use of a claim by a pod.

    Attributes:
        uid: UID of the pod.
        has_claim: whether the pod refers to the claim.
        pod_claim_name: name in the pod for a claim from a template, "" for a direct claim.
        containers: containers that list it; empty if all of them get it.
        host_network: the pod uses the network namespace of the host.
        node: name of its node, "" before it is scheduled.
        ended: the phase is Succeeded or Failed; a pod that is being deleted still has its devices.
    """

    uid: str
    has_claim: bool = False
    pod_claim_name: str = ""
    containers: tuple[ContainerClaim, ...] = ()
    host_network: bool = False
    node: str = ""
    ended: bool = False


def read_pod_use(document: Mapping[str, object], claim: AllocatedClaim) -> PodUse:
    """Return the use of a claim: direct, from a template, or for extended resources.

    Raises:
        ConfigError: the document is invalid; names the path.
    """
    findings = Violations()
    pod = Node(document, "", findings).present()
    metadata, spec, status = (object_of(pod, name) for name in ("metadata", "spec", "status"))
    entries = dict(_entries(spec, status, claim))
    extended = tuple(_extended(status, claim))
    use = PodUse(
        text_of(metadata, "uid"),
        bool(entries or extended),
        next((name for name, templated in entries.items() if templated), ""),
        tuple(dict.fromkeys((*_listings(spec, frozenset(entries)), *extended))),
        host_network=bool(given(spec, "hostNetwork", Node.boolean)),
        node=text_of(spec, "nodeName"),
        ended=text_of(status, "phase") in _ENDED,
    )
    findings.raise_if_any()
    return use


def has_ended(document: Mapping[str, object] | None, uid: str) -> bool:
    """Return whether a pod ended, is being deleted, or does not exist.

    Args:
        document: the pod of this name, None if there is none.
        uid: UID of the pod; another pod can have the same name later.

    Raises:
        ConfigError: the document is invalid; names the path.
    """
    findings = Violations()
    pod = Node(document, "", findings).present() if document is not None else {}
    metadata = object_of(pod, "metadata")
    exists = text_of(metadata, "uid") == uid and "deletionTimestamp" not in metadata
    ended = text_of(object_of(pod, "status"), "phase") in _ENDED
    findings.raise_if_any()
    return ended or not exists


def _entries(spec: Fields, status: Fields, claim: AllocatedClaim) -> Iterator[tuple[str, bool]]:
    """Yield (name, whether it has a template) of the pod's entries for this claim.

    Old clients can remove the status; then the annotation of the claim names its entry.
    """
    generated = {
        name: text_of(fields, "resourceClaimName")
        for fields in _objects(status, "resourceClaimStatuses")
        if (name := text_of(fields, "name"))
    }
    for fields in _objects(spec, "resourceClaims"):
        name = text_of(fields, "name")
        templated = "resourceClaimTemplateName" in fields
        claim_name = generated.get(name) or text_of(fields, "resourceClaimName")
        by_annotation = templated and not claim_name and name == claim.pod_claim_name
        if name and (claim_name == claim.ref.name or by_annotation):
            yield name, templated


def _listings(spec: Fields, entries: frozenset[str]) -> Iterator[ContainerClaim]:
    for kind in _CONTAINERS:
        for container in _objects(spec, kind):
            for fields in _objects(object_of(container, "resources"), "claims"):
                if text_of(fields, "name") in entries:
                    request = text_of(fields, "request").partition("/")[0]
                    yield ContainerClaim(text_of(container, "name"), request)


def _extended(status: Fields, claim: AllocatedClaim) -> Iterator[ContainerClaim]:
    """Yield the containers that request the extended resources of the claim."""
    if "extendedResourceClaimStatus" not in status:
        return
    node = status["extendedResourceClaimStatus"]
    fields = node.present()
    name = required(node, fields, "resourceClaimName")
    if name is None or name.text() != claim.ref.name:
        return
    for mapping in _objects(fields, "requestMappings"):
        request = text_of(mapping, "requestName").partition("/")[0]
        yield ContainerClaim(text_of(mapping, "containerName"), request)


def _objects(fields: Fields, name: str) -> list[dict[str, Node]]:
    return [item.present() for item in items_of(fields, name)]
