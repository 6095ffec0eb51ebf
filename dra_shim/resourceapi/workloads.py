"""Objects with pods, of any API: the claims of their pods, and the containers that list them.

The spec of a pod is found by its containers, so Jobs, StatefulSets, MPIJobs, JobSets and unknown
kinds are read alike; that of a KubeVirt machine by its domain. Fields of claims have the rules of
the API server, which validates the others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from dranet_nri.config.json_cursor import Node, items_of, required_text, text_of
from dranet_nri.model.api_names import parse_label

_LISTS: Final = ("initContainers", "containers")
_COPIES: Final = ("replicas", "parallelism")
_NOT_SPEC: Final = frozenset({"metadata", "status"})


@dataclass(frozen=True, slots=True)
class PodClaimEntry:
    """One entry of `spec.resourceClaims`.

    Attributes:
        name: its name for containers.
        claim: name of a ResourceClaim, "" if it has a template.
        template: name of a ResourceClaimTemplate, "" if it has a claim.
    """

    name: str
    claim: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True)
class PodContainer:
    """One container.

    Attributes:
        listed: (claim, request) pairs of `resources.claims`; request "" means the whole claim.
        init: it ends before the others start, unless it is a sidecar.
    """

    name: str
    listed: tuple[tuple[str, str], ...] = ()
    init: bool = False


@dataclass(frozen=True, slots=True)
class PodSpec:
    """Claims and containers of a pod's spec.

    Attributes:
        path: its location in the document.
        host_network: the pod uses the network namespace of the host.
        copies: number of such pods that run at the same time.
    """

    path: str
    claims: tuple[PodClaimEntry, ...] = ()
    containers: tuple[PodContainer, ...] = ()
    host_network: bool = False
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Workload:
    """An object whose pods have claims; namespace is "" if the document has none."""

    kind: str
    namespace: str
    name: str
    pods: tuple[PodSpec, ...]


def read_workload(node: Node, kind: str) -> Workload | None:
    """Return the claims in an object's pods, None if no pod has or lists one."""
    specs = (child for name, child in _children(node) if name not in _NOT_SPEC)
    pods = tuple(_pod(*spec) for child in specs for spec in _pod_specs(child))
    using = tuple(
        pod for pod in pods if pod.claims or any(container.listed for container in pod.containers)
    )
    if not using:
        return None
    metadata = next((child.value for name, child in _children(node) if name == "metadata"), None)
    name = _text(metadata, "name") or _text(metadata, "generateName").rstrip("-.")
    return Workload(kind, _text(metadata, "namespace"), name, using)


def _children(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield the fields of an object by name, or the elements of a list."""
    if isinstance(node.value, Mapping):
        for order, (name, value) in enumerate(node.value.items()):
            yield str(name), node.child(str(name), value, order)
    elif isinstance(node.value, list):
        yield from (("", item) for item in node.items())


def _pod_specs(node: Node, copies: int = 1) -> Iterator[tuple[Node, int]]:
    """Yield the specs of pods within a value, of which there are copies, and their numbers."""
    if isinstance(node.value, Mapping):
        fields = node.value
        if isinstance(fields.get("containers"), list) or isinstance(fields.get("domain"), Mapping):
            yield node, copies
            return
        numbers = (fields.get(name) for name in _COPIES)
        copies *= prod(number for number in numbers if type(number) is int)
    for _, child in _children(node):
        yield from _pod_specs(child, copies)


def _pod(node: Node, copies: int) -> PodSpec:
    fields = {name: child for name, child in _children(node) if child.value is not None}
    names: set[str] = set()
    entries = tuple(_entry(item, names) for item in items_of(fields, "resourceClaims"))
    containers = tuple(
        PodContainer(_text(item.value, "name"), tuple(_listed(item)), init=kind == _LISTS[0])
        for kind in _LISTS
        for item in items_of(fields, kind)
    )
    for item in items_of(fields, "ephemeralContainers"):
        for claims in _claims(item):
            claims.report("an ephemeral container cannot have claims; remove it")
    host_network = "hostNetwork" in fields and fields["hostNetwork"].value is True
    return PodSpec(node.path, entries, containers, host_network, copies)


def _entry(node: Node, names: set[str]) -> PodClaimEntry:
    """Read an entry of `resourceClaims`; names are those of the entries before."""
    fields = node.present()
    name = required_text(node, fields, "name", parse_label)
    if name in names:
        node.report("the name of a claim must be unique in the pod; rename one")
    names.add(name)
    claim = text_of(fields, "resourceClaimName")
    template = text_of(fields, "resourceClaimTemplateName")
    if claim and template:
        node.report("has resourceClaimName and resourceClaimTemplateName; keep one")
    return PodClaimEntry(name, claim, template)


def _listed(container: Node) -> Iterator[tuple[str, str]]:
    """Yield the references to claims; one may not be covered by another."""
    before: list[tuple[str, str]] = []
    for claims in _claims(container):
        for item in claims.items():
            fields = {name: child for name, child in item.entries().items() if child.value}
            request = text_of(fields, "request", parse_label)
            reference = required_text(item, fields, "name", parse_label), request
            whole = (reference[0], "")
            same = whole in before or reference in before
            if same or (not request and any(name == reference[0] for name, _ in before)):
                item.report("the container already lists this claim; keep one")
            before.append(reference)
            yield reference


def _claims(container: Node) -> Iterator[Node]:
    """Yield `resources.claims` of a container, if it has them."""
    resources = dict(_children(container)).get("resources")
    claims = dict(_children(resources)).get("claims") if resources else None
    if claims and claims.value is not None:
        yield claims


def _text(fields: object, name: str) -> str:
    value = fields.get(name) if isinstance(fields, Mapping) else None
    return value if isinstance(value, str) else ""
