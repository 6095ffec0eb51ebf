"""Objects with pods, of any API: the claims of their pods, and the containers that list them.

The spec of a pod is found by its containers, so Jobs, StatefulSets, MPIJobs, JobSets and unknown
kinds are read alike. Their server validates other fields.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

_LISTS: Final = ("initContainers", "containers")
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
    """

    path: str
    claims: tuple[PodClaimEntry, ...] = ()
    containers: tuple[PodContainer, ...] = ()
    host_network: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """An object whose pods have claims; namespace is "" if the document has none."""

    kind: str
    namespace: str
    name: str
    pods: tuple[PodSpec, ...]


def read_workload(document: Mapping[str, object], kind: str, path: str) -> Workload | None:
    """Return the claims in an object's pods, None if no pod has or lists one."""
    prefix = f"{path}." if path else ""
    specs = {key: value for key, value in document.items() if key not in _NOT_SPEC}
    pods = tuple(_pod(spec, at) for at, spec in _pod_specs(specs, prefix))
    using = tuple(
        pod for pod in pods if pod.claims or any(container.listed for container in pod.containers)
    )
    if not using:
        return None
    metadata = _mapping(document.get("metadata"))
    return Workload(kind, _text(metadata, "namespace"), _text(metadata, "name"), using)


def _pod_specs(value: object, prefix: str) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the specs of pods within a value, with their paths."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _pod_specs(item, f"{prefix.removesuffix('.')}[{index}].")
    elif isinstance(value, Mapping):
        if isinstance(value.get("containers"), list):
            yield prefix.removesuffix("."), value
            return
        for key, child in value.items():
            yield from _pod_specs(child, f"{prefix}{key}.")


def _pod(spec: Mapping[str, object], path: str) -> PodSpec:
    entries = tuple(
        PodClaimEntry(
            _text(claim, "name"),
            _text(claim, "resourceClaimName"),
            _text(claim, "resourceClaimTemplateName"),
        )
        for claim in _mappings(spec, "resourceClaims")
    )
    containers = tuple(
        PodContainer(_text(container, "name"), tuple(_listed(container)), init=kind == _LISTS[0])
        for kind in _LISTS
        for container in _mappings(spec, kind)
    )
    return PodSpec(path, entries, containers, spec.get("hostNetwork") is True)


def _listed(container: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for reference in _mappings(_mapping(container.get("resources")), "claims"):
        yield _text(reference, "name"), _text(reference, "request")


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _mappings(fields: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    value = fields.get(name)
    return (
        [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []
    )


def _text(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""
