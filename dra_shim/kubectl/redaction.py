"""Redaction of objects and logs for the support archive.

Rules:
1. Annotations (a template's too), managed fields and the values of environment variables are
   removed: tokens and passwords are in them.
2. Of a pod only fields that concern claims and devices stay: names, images, claims, node, phase.
   Commands and arguments are removed.
3. In logs, bearer tokens and JSON Web Tokens are replaced, and passwords in URLs.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

Item = Mapping[str, Any]
REMOVED: Final = "REMOVED"
_METADATA: Final = ("name", "namespace", "uid", "labels", "ownerReferences", "creationTimestamp")
_CONTAINER: Final = ("name", "image", "resources", "restartPolicy")
_POD_SPEC: Final = ("nodeName", "resourceClaims", "hostNetwork", "runtimeClassName")
_POD_STATUS: Final = ("phase", "reason", "conditions", "resourceClaimStatuses", "podIPs")
_SECRETS: Final = (
    re.compile(r"eyJ[\w-]+\.[\w-]+\.[\w-]*"),  # JSON Web Token, RFC 7519
    re.compile(r"(?i)(?<=bearer )[\w.~+/=-]+"),
    re.compile(r"(?<=://)[^/\s:@]*:[^/\s@]+(?=@)"),
)


def redacted(item: Item) -> Item:
    """Return an object without fields that may contain secrets."""
    plain = {**item, "metadata": _selected(item.get("metadata"), _METADATA)}
    if item.get("kind") == "Pod":
        return _pod(plain)
    if item.get("kind") == "ResourceClaimTemplate":
        spec = item.get("spec") or {}
        return {**plain, "spec": {**spec, "metadata": _selected(spec.get("metadata"), _METADATA)}}
    return plain


def redacted_text(text: str) -> str:
    """Return a log without tokens and passwords."""
    for pattern in _SECRETS:
        text = pattern.sub(REMOVED, text)
    return text


def _pod(pod: Item) -> Item:
    spec = pod.get("spec") or {}
    fields = dict(_selected(spec, _POD_SPEC))
    for name in ("initContainers", "containers"):
        if name in spec:
            fields[name] = [_selected(container, _CONTAINER) for container in spec[name]]
    return {**pod, "spec": fields, "status": _selected(pod.get("status"), _POD_STATUS)}


def _selected(value: object, names: tuple[str, ...]) -> Item:
    values = value if isinstance(value, Mapping) else {}
    return {name: values[name] for name in names if name in values}
