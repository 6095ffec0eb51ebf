"""API requests as values: paths, queries and bodies.

Origin: Kubernetes API concepts (paths, watch, server-side apply), KEP-555 (server-side apply).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

RESOURCE_GROUP: Final = "resource.k8s.io"
VERSIONS: Final[Mapping[str, tuple[str, ...]]] = {  # supported versions, the preferred first
    "": ("v1",),
    RESOURCE_GROUP: ("v1", "v1beta2", "v1beta1"),
}
JSON: Final = "application/json"
APPLY: Final = "application/apply-patch+yaml"  # JSON is YAML; see _encoded

_UNSAFE: Final = re.compile(r"[\x7f-\uffff]")

Document = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object.

    Attributes:
        plural: name in paths.
        group: "" for the core group.
    """

    name: str
    plural: str
    group: str = ""


NODE: Final = Kind("Node", "nodes")
POD: Final = Kind("Pod", "pods")
EVENT: Final = Kind("Event", "events")
CLAIM: Final = Kind("ResourceClaim", "resourceclaims", RESOURCE_GROUP)
CLASS: Final = Kind("DeviceClass", "deviceclasses", RESOURCE_GROUP)
TEMPLATE: Final = Kind("ResourceClaimTemplate", "resourceclaimtemplates", RESOURCE_GROUP)
SLICE: Final = Kind("ResourceSlice", "resourceslices", RESOURCE_GROUP)
REVIEW: Final = Kind("SelfSubjectAccessReview", "selfsubjectaccessreviews", "authorization.k8s.io")


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """Path of one object, or without a name of all objects of its kind.

    Attributes:
        version: version of its API group ("v1beta2").
        namespace: "" for all namespaces, or for a kind without namespaces.
        subresource: such as "status", "" for the object itself.
    """

    kind: Kind
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def api_version(self) -> str:
        """Return group/version, as in documents."""
        return f"{self.kind.group}/{self.version}" if self.kind.group else self.version

    @property
    def path(self) -> str:
        """Return the path without a leading slash, because the server can have a base path."""
        root = "apis" if self.kind.group else "api"
        scope = ["namespaces", self.namespace] if self.namespace else []
        parts = [*scope, self.kind.plural, self.name, self.subresource]
        tail = "/".join(quote(part, safe="") for part in parts if part)
        return f"{root}/{self.api_version}/{tail}"

    def __str__(self) -> str:
        """Return the name for messages: "ResourceClaim ai/fast status"."""
        name = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return " ".join(filter(None, (self.kind.name, name, self.subresource)))


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request.

    Attributes:
        verb: verb of RBAC ("get", "update").
        subject: the object, for messages ("ResourceSlice node-1").
        resource: resource of RBAC ("resourceclaims/status").
    """

    verb: str
    subject: str
    resource: str
    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = JSON

    def __str__(self) -> str:
        """Return the request for messages: "update ResourceSlice node-1"."""
        return f"{self.verb} {self.subject}"


def discovery(group: str) -> ApiRequest:
    """Return a request for the versions of a group."""
    return ApiRequest("get", f"API group {group}", group, "GET", f"apis/{group}")


def getting(path: ObjectPath) -> ApiRequest:
    """Return a request for one object."""
    return _request("get", "GET", path)


def listing(path: ObjectPath, fields: Mapping[str, str], resource_version: str = "") -> ApiRequest:
    """Return a request for all objects of a kind.

    Args:
        path: path without a name.
        fields: field selector.
        resource_version: "" for the newest state, "0" for any state in the server's cache.
    """
    query = {"fieldSelector": _selector(fields), "resourceVersion": resource_version}
    return _request("list", "GET", path, query)


def paging(path: ObjectPath, limit: int, continue_token: str = "") -> ApiRequest:
    """Return a request for one page of a kind, of the newest state; other states are not paged.

    Args:
        path: path without a name.
        limit: largest number of objects.
        continue_token: of the previous page, "" for the first page.
    """
    return _request("list", "GET", path, {"limit": str(limit), "continue": continue_token})


def watching(
    path: ObjectPath, fields: Mapping[str, str], resource_version: str, seconds: int
) -> ApiRequest:
    """Return a request for changes after a state, with bookmarks, for this number of seconds."""
    query = {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "fieldSelector": _selector(fields),
        "resourceVersion": resource_version,
        "timeoutSeconds": str(seconds),
    }
    return _request("watch", "GET", path, query)


def creating(path: ObjectPath, document: Document, *, dry_run: bool = False) -> ApiRequest:
    """Return a request to create an object; the path has its namespace, the document its name."""
    query = {"dryRun": "All" if dry_run else ""}
    return _request("create", "POST", path, query, _body(path, document))


def replacing(path: ObjectPath, document: Document) -> ApiRequest:
    """Return a request to replace an object in the state of metadata.resourceVersion, if given."""
    return _request("update", "PUT", path, body=_body(path, document))


def deleting(path: ObjectPath, uid: str, version: str = "") -> ApiRequest:
    """Return a request to delete the object with this UID and, if given, this state."""
    preconditions = {"uid": uid, **({"resourceVersion": version} if version else {})}
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
    return _request("delete", "DELETE", path, body=_encoded(options))


def applying(path: ObjectPath, document: Document, manager: str) -> ApiRequest:
    """Return a server-side apply: fields that this manager omits now are removed."""
    query = {"fieldManager": manager, "force": "true"}
    return _request("patch", "PATCH", path, query, _body(path, document), APPLY)


def _request(
    verb: str,
    method: str,
    path: ObjectPath,
    query: Mapping[str, str] | None = None,
    body: bytes | None = None,
    content_type: str = JSON,
) -> ApiRequest:
    resource = "/".join(filter(None, (path.kind.plural, path.subresource)))
    parameters = {name: value for name, value in (query or {}).items() if value}
    return ApiRequest(verb, str(path), resource, method, path.path, parameters, body, content_type)


def _selector(fields: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in fields.items())


def _body(path: ObjectPath, document: Document) -> bytes:
    return _encoded({**document, "apiVersion": path.api_version, "kind": path.kind.name})


def _encoded(document: Document) -> bytes:
    """Return JSON that is YAML too: no surrogate pairs, and no character that YAML forbids."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text).encode()
