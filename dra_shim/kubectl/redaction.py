"""Objects without what may be secret, for the support archive.

Rules:
1. Annotations, managed fields and the values of environment variables are removed: tokens and
   passwords are in them.
2. Of a pod, what claims and devices need is kept: names, images, claims,
   the node, the phase. Commands and arguments are removed.
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
    """Return an object without what may be secret."""
    plain = {**item, "metadata": _kept(item.get("metadata"), _METADATA)}
    if item.get("kind") == "Pod":
        return _pod(plain)
    return plain


def redacted_text(text: str) -> str:
    """Return a log without tokens and passwords."""
    for pattern in _SECRETS:
        text = pattern.sub(REMOVED, text)
    return text


def _pod(pod: Item) -> Item:
    spec = pod.get("spec") or {}
    kept = dict(_kept(spec, _POD_SPEC))
    for name in ("initContainers", "containers"):
        if name in spec:
            kept[name] = [_kept(container, _CONTAINER) for container in spec[name]]
    return {**pod, "spec": kept, "status": _kept(pod.get("status"), _POD_STATUS)}


def _kept(value: object, names: tuple[str, ...]) -> Item:
    fields = value if isinstance(value, Mapping) else {}
    return {name: fields[name] for name in names if name in fields}
