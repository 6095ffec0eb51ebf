"""Source of objects: a cluster through kubectl, or saved files.

Files are outputs of `kubectl get -o yaml` or `-o json`, or an unpacked support archive.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dra_shim.commands.documents import files_below, read_text
from dra_shim.resourceapi.manifests import load_manifests
from dra_shim.verify.kubectl import Kubectl
from dranet_nri.errors import ConfigError

Item = Mapping[str, Any]

# (name for kubectl, kind)
SLICES: Final = ("resourceslices", "ResourceSlice")
CLAIMS: Final = ("resourceclaims", "ResourceClaim")
TEMPLATES: Final = ("resourceclaimtemplates", "ResourceClaimTemplate")
CLASSES: Final = ("deviceclasses", "DeviceClass")
PODS: Final = ("pods", "Pod")
DRIVER_PODS: Final = "k8s-app=dranet"  # label of the DaemonSet's pods


def add_source_flags(parser: ArgumentParser) -> None:
    """Add the flags of the source of the objects."""
    parser.add_argument(
        "--from", dest="directory", metavar="DIR", default="",
        help="read the objects from the files below this directory, such as an unpacked support "
        "archive, instead of a cluster",
    )  # fmt: skip
    parser.add_argument(
        "--kubeconfig", default="", metavar="FILE",
        help="kubeconfig file; default: that of kubectl",
    )  # fmt: skip
    parser.add_argument("--context", default="", metavar="NAME", help="context of the kubeconfig")


class ObjectSource:
    """Objects by kind."""

    def __init__(self, args: Namespace) -> None:
        """Read saved files; a cluster is read on demand.

        Args:
            args: parsed flags of `add_source_flags`.

        Raises:
            ConfigError: a file cannot be read; all violations.
        """
        self._kubectl = Kubectl(args.kubeconfig, args.context, "default")
        self._saved = saved_items(args.directory) if args.directory else None

    @property
    def kubectl(self) -> Kubectl | None:
        """Return the access to the cluster, None for saved files."""
        return self._kubectl if self._saved is None else None

    def items(self, kind: tuple[str, str], labels: str = "") -> tuple[Item, ...]:
        """Return all objects of a kind.

        Args:
            kind: name for kubectl, and kind.
            labels: equality selector "name=value", "" for all.

        Raises:
            KubectlError: the cluster cannot be read.
        """
        if self._saved is None:
            words = ["--all-namespaces", *([f"--selector={labels}"] if labels else [])]
            return tuple(self._kubectl.get(kind[0], *words))
        found = (item for item in self._saved if item.get("kind") == kind[1])
        return tuple(item for item in found if has_label(item, labels))


def saved_items(directory: str) -> tuple[Item, ...]:
    """Return the objects of all files below a directory; items of a List are separate objects.

    Raises:
        ConfigError: all violations, prefixed with the name of the file.
    """
    if not Path(directory).is_dir():
        raise ConfigError([f"--from {directory}: is not a directory; check the path"])
    found: list[Item] = []
    violations: list[str] = []
    for name in files_below([directory]):
        try:
            for document in load_manifests(read_text(name)):
                found += _members(document)
        except ConfigError as error:
            violations += [f"{name}: {line}" for line in error.violations]
    if violations:
        raise ConfigError(violations)
    return tuple(found)


def name_of_item(item: Item) -> str:
    """Return "namespace/name", or "name" of an object without a namespace."""
    metadata = item.get("metadata") or {}
    namespace, name = metadata.get("namespace", ""), metadata.get("name", "")
    return f"{namespace}/{name}" if namespace else str(name)


def _members(document: object) -> Sequence[Item]:
    if not isinstance(document, Mapping):
        return ()
    if "items" in document and "kind" not in document:  # kubectl prints the items first
        raise ConfigError(["document: has items but no kind, as if cut off; save it again"])
    if str(document.get("kind", "")).endswith("List"):
        return [item for item in document.get("items") or () if isinstance(item, Mapping)]
    return (document,)


def has_label(item: Item, labels: str) -> bool:
    """Return whether an object has the label "name=value"; "" is every object."""
    name, _, value = labels.partition("=")
    return not labels or ((item.get("metadata") or {}).get("labels") or {}).get(name) == value
