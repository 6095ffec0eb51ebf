"""Command `explain`: whether the claims of a pod, a job or manifests can be allocated, and where.

The explanation is that of `dra-shim explain`; this command also selects the node.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from dra_shim.commands.documents import STDIN, files_below, read_documents
from dra_shim.commands.explain import answer, explain_all
from dra_shim.commands.explanation import Explanation
from dra_shim.kubectl.cluster import read_nodes
from dra_shim.kubectl.source import (
    CLAIMS,
    CLASSES,
    SLICES,
    TEMPLATES,
    Item,
    ObjectSource,
    add_source_flags,
    name_of_item,
)
from dra_shim.resourceapi import (
    Document,
    OtherObject,
    ResourceClaim,
    ResourceClaimTemplate,
    Workload,
    parse_stored,
)
from dranet_nri.component.output import add_output_flag, print_lines
from dranet_nri.component.replace import replace
from dranet_nri.errors import ConfigError

EXAMPLES: Final = ("explain pod/train-0 -n ml", "explain job/train -n ml", "explain job.yaml")
# Kinds of a reference: short name → (name for kubectl, kind).
KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "pod": ("pods", "Pod"),
    "job": ("jobs", "Job"),
    "deployment": ("deployments", "Deployment"),
    "statefulset": ("statefulsets", "StatefulSet"),
    "daemonset": ("daemonsets", "DaemonSet"),
    "claim": ("resourceclaims", "ResourceClaim"),
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    kinds = ", ".join(KINDS)
    parser.add_argument(
        "target", metavar="POD|JOB|FILE",
        help="a file or directory of manifests, - for standard input, or KIND/NAME in the cluster "
        f"(kinds: {kinds}); a name alone is a pod's",
    )  # fmt: skip
    parser.add_argument("-n", "--namespace", default="default", metavar="NAME",
                        help="namespace of the pod or job, or of a file that has none")  # fmt: skip
    parser.add_argument("--node", default="", metavar="NAME",
                        help="only this node; by default the pod's own, or the first that "
                        "can meet the claims")  # fmt: skip
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show all checks of all devices"
    )
    add_source_flags(parser)
    add_output_flag(parser)


def main(args: argparse.Namespace) -> int:
    """Print the decision and its reasons; return 0 if the claims can be met, else 1.

    Raises:
        DranetError: the cluster or the files cannot be read, or there is no such object.
    """
    source = ObjectSource(args)
    targets, owner = _targets(args, source)
    documents = (*targets, *_beside(targets, source, owner))
    names = [args.node] if args.node else _nodes(source, owner)
    found: list[Explanation] = []
    suitable: list[str] = []
    shown = ""
    for name in names:
        # Flags as of `dra-shim explain --cluster`.
        flags = argparse.Namespace(cluster=True, slices=[], inventory=None, node=name)
        explained = explain_all(flags, targets, documents)
        allocatable = all(explanation.is_allocatable for explanation in explained)
        if not found or (allocatable and not suitable):
            found, shown = explained, name
        suitable += [name] if allocatable else []
    if len(names) > 1 and args.output == "table":
        print_lines(f"nodes: {len(suitable)} of {len(names)} can meet the claims; shown: {shown}")
    return answer(args, found)


def _targets(args: argparse.Namespace, source: ObjectSource) -> tuple[tuple[Document, ...], Item]:
    """Return (documents to explain, their object in the cluster or {} for files)."""
    target = args.target
    if target == STDIN or Path(target).exists():
        documents = read_documents(files_below([target]))
        return tuple(_in_namespace(document, args.namespace) for document in documents), {}
    word, _, name = target.rpartition("/")
    kind = KINDS.get(word.lower().removesuffix("s") or "pod")
    if kind is None or target.endswith((".yaml", ".yml", ".json")):
        kinds = ", ".join(KINDS)
        raise ConfigError(
            [f"{target}: no such file, and no KIND/NAME (kinds: {kinds}); correct the path"]
        )
    full_name = f"{args.namespace}/{name}"
    for item in source.items(kind):
        if name_of_item(item) == full_name:
            document = parse_stored({"kind": kind[1], **item})
            if isinstance(document, OtherObject):
                reason = "has no resourceClaims; name another, or add some"
                raise ConfigError([f"{target}: {kind[1]} {full_name} {reason}"])
            return (document,), item
    raise ConfigError(
        [f"{target}: no {kind[1]} {full_name}; correct the name, or give its --namespace"]
    )


def _in_namespace(document: Document, namespace: str) -> Document:
    """Return a document of a file in the namespace, unless it has one."""
    match document:
        case ResourceClaim("") | ResourceClaimTemplate("") | Workload(namespace=""):
            return replace(document, namespace=namespace)
    return document


def _beside(targets: Sequence[Document], source: ObjectSource, owner: Item) -> tuple[Document, ...]:
    """Return the objects of the cluster besides the targets and the pod's generated claims."""
    uid = (owner.get("metadata") or {}).get("uid")
    items = [item for kind in (SLICES, CLASSES, TEMPLATES) for item in source.items(kind)]
    items += [item for item in source.items(CLAIMS) if not uid or uid not in _owners(item)]
    identities = {_identity(document) for document in targets}
    documents = map(parse_stored, items)
    return tuple(document for document in documents if _identity(document) not in identities)


def _owners(item: Item) -> set[str]:
    return {owner.get("uid") for owner in (item.get("metadata") or {}).get("ownerReferences") or ()}


def _identity(document: Document) -> tuple[Any, ...]:
    namespace, name = getattr(document, "namespace", ""), getattr(document, "name", "")
    return type(document), namespace or "default", name


def _nodes(source: ObjectSource, owner: Item) -> list[str]:
    """Return the node of a scheduled pod, otherwise all nodes that publish devices."""
    bound = (owner.get("spec") or {}).get("nodeName")
    names = [node.name for node in read_nodes(source) if node.devices]
    if bound in names:
        return [str(bound)]
    if not names:
        raise ConfigError(["no node publishes devices; check that the driver runs on it"])
    return names
