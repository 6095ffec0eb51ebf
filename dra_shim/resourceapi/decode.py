"""Document decoder: one document → one value, by its apiVersion and kind.

Rules:
1. A user's document is read strictly. A document of a driver or server can have a newer API:
   unknown fields of ResourceSlices, and of objects with a resourceVersion, are ignored.
2. Parameters of this driver are always read strictly, because no server validates them. An object
   of a cluster can thus be invalid: what cannot be read is an error where it is used.
"""

from collections.abc import Callable, Mapping
from typing import Final

from dra_shim.resourceapi.allocation_result import allocated_devices
from dra_shim.resourceapi.claim_spec import (
    TOO_LONG,
    claim_spec,
    configs,
    is_too_long,
    report_misplaced,
    selectors,
)
from dra_shim.resourceapi.slice_spec import slice_spec
from dra_shim.resourceapi.slice_types import ResourceSlice
from dra_shim.resourceapi.types import (
    ClaimSpec,
    DeviceClass,
    Document,
    OtherObject,
    Parameters,
    ResourceClaim,
    ResourceClaimTemplate,
)
from dra_shim.resourceapi.workloads import read_workload
from dranet_nri.component.replace import replace
from dranet_nri.config import (
    ConfigSource,
    Node,
    Violations,
    did_you_mean,
    gateway_violations,
    parse_network_config,
)
from dranet_nri.config.fields import TOP_FIELDS
from dranet_nri.config.json_cursor import Fields, required, required_text, show, text_of
from dranet_nri.errors import ConfigError, InvalidValueError
from dranet_nri.model import NetworkConfig, parse_uid
from dranet_nri.model.api_names import (
    parse_extended_resource,
    parse_label,
    parse_subdomain,
)

GROUP: Final = "resource.k8s.io"
VERSIONS: Final = ("v1", "v1beta2", "v1beta1")

_SLICE: Final = "ResourceSlice"
_LIST: Final = "List"
# Kinds of the group that are not read.
_UNREAD: Final = ("DeviceTaintRule", "ResourcePoolStatusRequest")
_EMPTY_SPECS: Final[Mapping[str, object]] = {
    "ResourceClaim": {},
    "ResourceClaimTemplate": {"spec": {}},
    "DeviceClass": {},
}
_OBJECT: Final = ("apiVersion", "kind", "metadata", "spec", "status")
_METADATA: Final = (
    *("name", "generateName", "namespace", "uid", "labels", "annotations", "finalizers"),
    *("resourceVersion", "generation", "creationTimestamp", "deletionTimestamp", "selfLink"),
    *("deletionGracePeriodSeconds", "ownerReferences", "managedFields"),
)


def parse_manifests(text: str, *, only_allocated: bool = False) -> tuple[Document, ...]:
    """Return the documents of a file; items of a List are separate documents.

    Args:
        text: YAML or JSON.
        only_allocated: read only the allocated devices of ResourceClaims, not `spec`.

    Raises:
        ConfigError: every violation of every document.
    """
    # Imported here, because it takes 1.4 MiB and the daemon does not need it.
    from dra_shim.resourceapi.manifests import load_manifests

    found: list[Document] = []
    violations: list[str] = []
    documents = load_manifests(text)
    for index, document in enumerate(documents):
        path = f"documents[{index}]" if len(documents) > 1 else ""
        for inner_path, inner in _members(document, path):
            try:
                read = _without_spec(inner) if only_allocated else inner
                found.append(parse_document(read, inner_path))
            except ConfigError as error:
                violations += error.violations
    if violations:
        raise ConfigError(violations)
    return tuple(found)


def parse_document(document: object, path: str = "") -> Document:
    """Return the value of one document that was parsed from JSON or YAML.

    Args:
        document: the object; one without apiVersion and kind is a bare NetworkConfig.
        path: path in its file, as a prefix of each violation.

    Raises:
        ConfigError: every violation of the document.
    """
    if isinstance(document, Mapping) and not {"apiVersion", "kind"} & document.keys():
        if is_too_long(document):
            raise ConfigError([f"{path or 'document'}: {TOO_LONG}"])
        return Parameters(_whole_config(document, path))
    findings = Violations(newer=_is_generated(document))
    value = _object(Node(document, path, findings))
    findings.raise_if_any()
    assert value is not None, "a document without a value has a finding"
    return value


def parse_stored(document: Mapping[str, object]) -> Document:
    """Return the value of an object that a server stores.

    If the spec of a claim, template or class cannot be read, the value has its violations, each
    with kind and name, instead.

    Raises:
        ConfigError: every violation of another document, with its kind and name.
    """
    try:
        return parse_document(document)
    except ConfigError as error:
        kind, name = str(document.get("kind")), _title(Node(document, "", Violations()))
        violations = tuple(f"{kind} {name}: {line}" for line in error.violations)
    if kind not in _EMPTY_SPECS:
        raise ConfigError(violations)
    unread = parse_document({**document, "spec": _EMPTY_SPECS[kind]})
    if isinstance(unread, DeviceClass):
        return replace(unread, violations=violations)
    assert isinstance(unread, ResourceClaim | ResourceClaimTemplate), "it is of a kind with claims"
    return replace(unread, spec=ClaimSpec(violations=violations))


def _whole_config(document: Mapping[object, object], path: str) -> NetworkConfig:
    """Return parameters that are complete but for those of a profile."""
    names = sorted((*TOP_FIELDS, "profile"))
    likely = any(name in names for name in document) or (
        len(document) < 2 and all(did_you_mean(str(name), names) for name in document)
    )
    if not likely:
        raise ConfigError(
            [
                f"{path or 'document'}: {show(document)}: is no manifest, which has apiVersion and "
                f"kind, and no NetworkConfig, which has some of: {', '.join(names)}; correct it, or"
                " leave it out"
            ]
        )
    config = parse_network_config(document, path)
    violations = () if config.profile else tuple(gateway_violations(config))
    if violations:
        raise ConfigError([f"{path}.{line}" if path else line for line in violations])
    return config


def _is_generated(document: object) -> bool:
    """Return whether a driver or an API server wrote the document."""
    if not isinstance(document, Mapping):
        return False
    metadata = document.get("metadata")
    stored = isinstance(metadata, Mapping) and "resourceVersion" in metadata
    return stored or document.get("kind") == _SLICE


def _without_spec(document: object) -> object:
    if isinstance(document, Mapping) and document.get("kind") == "ResourceClaim":
        return {**document, "spec": {}}
    return document


def _members(document: object, path: str) -> list[tuple[str, object]]:
    """Return (path, document) of each item of a List; items of a typed list may lack the kind."""
    kind = document.get("kind") if isinstance(document, Mapping) else None
    items = document.get("items") if isinstance(document, Mapping) else None
    if not isinstance(kind, str) or not kind.endswith(_LIST) or not isinstance(items, list):
        return [(path, document)]
    assert isinstance(document, Mapping)
    shared = {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix(_LIST)}
    prefix = f"{path}.items" if path else "items"
    return [
        member
        for index, item in enumerate(items)
        for member in _members(
            shared | item if shared["kind"] and _lacks_kind(item) else item, f"{prefix}[{index}]"
        )
    ]


def _lacks_kind(document: object) -> bool:
    return isinstance(document, dict) and "kind" not in document


def _object(node: Node) -> Document | None:
    entries = node.entries()
    version = required(node, entries, "apiVersion") if entries else None
    kind = required(node, entries, "kind") if entries else None
    version_text = version.text() if version else None
    kind_text = kind.text() if kind else None
    if version is None or kind is None or version_text is None or kind_text is None:
        return None
    group, _, short = version_text.rpartition("/")
    if group != GROUP:
        if kind_text in _READERS and (not group or did_you_mean(group, [GROUP])):
            version.report(f"{kind_text} is of {GROUP}; write {GROUP}/{VERSIONS[0]}")
        return read_workload(node, kind_text) or OtherObject(kind_text, _title(node))
    if kind_text in _UNREAD:
        return OtherObject(kind_text, _title(node))
    if short not in VERSIONS and kind_text != _SLICE:
        versions = ", ".join(f"{GROUP}/{version}" for version in VERSIONS)
        version.report(f"this version is not known; use one of {versions}")
        return None
    reader = _READERS.get(kind_text)
    if reader is None and node.findings.newer:
        return OtherObject(kind_text, _title(node))
    if reader is None:
        hint = did_you_mean(kind_text, _READERS)
        kind.report(f"no such kind in {GROUP}{hint}; use one of {', '.join(_READERS)}")
        return None
    return reader(node, node.fields(_OBJECT), short == "v1beta1")


def _title(node: Node) -> str:
    metadata = node.value.get("metadata") if isinstance(node.value, Mapping) else None
    return str(metadata.get("name", "")) if isinstance(metadata, Mapping) else ""


def _metadata(node: Node, fields: Fields) -> tuple[str, str, str]:
    """Return namespace, name and uid; a generateName is used as the name."""
    metadata = required(node, fields, "metadata")
    if metadata is None:
        return "", "", ""
    inner = metadata.fields(_METADATA)
    for labels in ("labels", "annotations"):
        if labels in inner:
            for entry in inner[labels].entries().values():
                entry.text()
    namespace = text_of(inner, "namespace", parse_label)
    uid = text_of(inner, "uid", _uid)
    if "name" not in inner and "generateName" in inner:
        name = text_of(inner, "generateName").rstrip("-.")
    else:
        name = required_text(metadata, inner, "name", parse_subdomain)
    return namespace, name, uid


def _uid(text: str) -> str:
    try:
        return parse_uid(text)
    except InvalidValueError:
        raise InvalidValueError("must be 1 to 128 of letters, digits, . _ -") from None


def _claim(node: Node, fields: Fields, flat: bool) -> ResourceClaim:  # noqa: FBT001 row of a table
    namespace, name, uid = _metadata(node, fields)
    spec = required(node, fields, "spec")
    return ResourceClaim(
        namespace,
        name,
        uid,
        claim_spec(spec, flat=flat) if spec else ClaimSpec(),
        allocated_devices(fields["status"]) if "status" in fields else (),
    )


def _template(node: Node, fields: Fields, flat: bool) -> ResourceClaimTemplate:  # noqa: FBT001
    namespace, name, _ = _metadata(node, fields)
    outer = required(node, fields, "spec")
    if outer is None:
        return ResourceClaimTemplate(namespace, name, ClaimSpec())
    inner = outer.fields(("metadata", "spec"), ("devices",))
    report_misplaced(inner, ("devices",), "spec.spec")
    if "metadata" in inner:
        inner["metadata"].fields(_METADATA)
    spec = inner.get("spec") if "devices" in inner else required(outer, inner, "spec")
    return ResourceClaimTemplate(
        namespace, name, claim_spec(spec, flat=flat) if spec else ClaimSpec()
    )


def _class(node: Node, fields: Fields, flat: bool) -> DeviceClass:  # noqa: ARG001, FBT001
    _, name, _ = _metadata(node, fields)
    spec = required(node, fields, "spec")
    if spec is None:
        return DeviceClass(name)
    inner = spec.fields(("selectors", "config", "extendedResourceName"))
    if "extendedResourceName" in inner:
        inner["extendedResourceName"].parsed(parse_extended_resource)
    return DeviceClass(name, selectors(inner), configs(inner, ConfigSource.CLASS, None))


def _slice(node: Node, fields: Fields, flat: bool) -> ResourceSlice:  # noqa: FBT001
    _, name, _ = _metadata(node, fields)
    spec = required(node, fields, "spec")
    return slice_spec(spec, name, basic=flat) if spec else ResourceSlice(name, "", "")


_READERS: Final[Mapping[str, Callable[[Node, Fields, bool], Document]]] = {
    "ResourceClaim": _claim,
    "ResourceClaimTemplate": _template,
    "DeviceClass": _class,
    _SLICE: _slice,
}
