"""Command `explain`: whether claims can be allocated, and why a device is or is not selected.

The command is read-only.
"""

import argparse
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

from dra_shim.checkpoint.transaction import observe
from dra_shim.commands.cluster import add_cluster_flags, read_cluster
from dra_shim.commands.cross_check import title_of
from dra_shim.commands.documents import files_below, read_files
from dra_shim.commands.explanation import Explanation, document_of, lines_of
from dra_shim.commands.inventory_file import inventory_of
from dra_shim.pool import near_in, node_inventory
from dra_shim.resourceapi import (
    DeviceClass,
    Document,
    PodClaimEntry,
    ResourceClaim,
    ResourceClaimTemplate,
    Workload,
)
from dra_shim.scheduling.allocator import (
    AlternativeReport,
    Grant,
    NamedClaim,
    PoolSet,
    config_for,
    explained,
    pool_set_of,
    pools_of,
    with_allocated,
)
from dra_shim.scheduling.inputs import node_of_slices, slices_among
from dra_shim.scheduling.pod_claims import classes_of
from dra_shim.settings.common import (
    DEFAULT_NAMESPACE,
    add_azure_flag,
    add_gates_flag,
    add_shared_flag,
    add_state_flags,
    state_from,
)
from dranet_nri.component.output import add_output_flag, print_lines, show_document
from dranet_nri.component.replace import replace
from dranet_nri.config import SameConfig, clashes, did_you_mean, network_config_to_object
from dranet_nri.errors import ConfigError
from dranet_nri.facts.host import node_name
from dranet_nri.model import DEFAULT_FILTER, DRIVER_NAME

Claim = ResourceClaim | ResourceClaimTemplate

EXAMPLES: Final = (
    "explain job.yaml --class classes.yaml",
    "explain --claim claim.yaml --inventory inventory.json --filter '' --verbose",
    "explain manifests/ --cluster --node gpu-7",
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="ResourceClaims or ResourceClaimTemplates of one pod, or Pods, Jobs and others that "
        "make pods, each explained without the others; with their claims and classes; - for "
        "standard input, a directory for the manifests below it",
    )
    parser.add_argument(
        "--claim",
        action="append",
        default=[],
        metavar="FILE",
        help="the same as FILE; may be given several times, as --class, --slices and --claims",
    )
    parser.add_argument(
        "--class", dest="classes", action="append", default=[], metavar="FILE", help="DeviceClasses"
    )
    parser.add_argument(
        "--slices",
        action="append",
        default=[],
        metavar="FILE",
        help="ResourceSlices, such as kubectl get resourceslices -o yaml prints, instead of this "
        "node's devices; a nodeSelector in them is assumed to match",
    )
    parser.add_argument(
        "--claims",
        action="append",
        default=[],
        metavar="FILE",
        help="the other ResourceClaims, such as kubectl get resourceclaims -A -o yaml prints; what "
        "they have is in use, as is what claims among the --class and --slices files have",
    )
    _add_node_flags(parser)
    add_cluster_flags(parser)
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show all checks of all devices"
    )
    add_output_flag(parser)
    add_state_flags(parser)


def _add_node_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--inventory",
        type=Path,
        metavar="FILE",
        help="output of 'dranet-nri inventory --output json', instead of this node's devices; "
        "with --slices, instead of our driver's slices",
    )
    add_azure_flag(parser)
    add_gates_flag(parser)
    add(
        "--filter",
        default=DEFAULT_FILTER,
        metavar="CEL",
        help="CEL expression of devices of the inventory to consider, as of dranet; '' for all",
    )
    add_shared_flag(parser)
    add(
        "--node",
        default="",
        metavar="NAME",
        help="the node to allocate on (default: that of the slices, $NODE_NAME, or the host name)",
    )


def main(args: argparse.Namespace) -> int:
    """Print the decision and its reasons; return 0 if the claims can be allocated, otherwise 1.

    Raises:
        DranetError: the files are invalid, or the cluster cannot be read.
        OSError: the records cannot be read.
    """
    given = files_below([*args.files, *args.claim])
    if not given:
        raise ConfigError(["FILE: none is given; name the manifests of the claims, or of a pod"])
    files = read_files([*given, *args.classes, *args.slices], args.claims)
    targets = tuple(document for name in given for document in files.pop(name))
    others = tuple(document for documents in files.values() for document in documents)
    if args.cluster:
        others = _beside(targets, others, read_cluster(args.kubeconfig))
    return answer(args, explain_all(args, targets, (*targets, *others)))


def explain_all(
    args: argparse.Namespace, targets: Sequence[Document], documents: Sequence[Document]
) -> list[Explanation]:
    """Return the explanation of each pod; without pods, of the claims.

    Args:
        args: with the flags of this command.
        targets: documents with the pods or claims.
        documents: these and all others.

    Raises:
        ConfigError: a claim of a pod is not among the documents, or a class is contradictory.
    """
    return [
        _explained(args, title, claims, documents) for title, claims in _pods(targets, documents)
    ]


def answer(args: argparse.Namespace, found: Sequence[Explanation]) -> int:
    """Print explanations; return 0 if all claims can be allocated, otherwise 1."""
    if not show_document(args.output, lambda: _document(found)):
        for explanation in found:
            print_lines(*lines_of(explanation, verbose=args.verbose))
    return 0 if all(explanation.is_allocatable for explanation in found) else 1


def _document(found: Sequence[Explanation]) -> dict[str, object]:
    first, *rest = map(document_of, found)
    return {"items": [first, *rest]} if rest else first


def _beside(
    targets: Sequence[Document], others: Sequence[Document], cluster: Sequence[Document]
) -> tuple[Document, ...]:
    """Return the other documents; files have precedence over the cluster."""
    identities = {_identity(document) for document in (*targets, *others)} - {None}
    return (*others, *(document for document in cluster if _identity(document) not in identities))


def _identity(document: Document) -> tuple[type, str] | None:
    match document:
        case ResourceClaim() | ResourceClaimTemplate():
            return type(document), _label(document)
        case DeviceClass(name):
            return type(document), name
    return None


# --------------------------------------------------------------------------- requests


def _pods(
    targets: Sequence[Document], documents: Sequence[Document]
) -> list[tuple[str, tuple[NamedClaim, ...]]]:
    """Return title and claims of each pod; without pods, those of the claims."""
    workloads = [document for document in targets if isinstance(document, Workload)]
    if not workloads:
        return [("", _claims(targets))]
    by_identity = {
        identity: document for document in documents if (identity := _identity(document))
    }
    found: list[tuple[str, tuple[NamedClaim, ...]]] = []
    violations: list[str] = []
    for workload in workloads:
        several = len(workload.pods) > 1
        for pod in workload.pods:
            title = title_of(workload) + (f" {pod.path}" if several else "")
            try:
                claims = tuple(_claim_of(workload, entry, by_identity) for entry in pod.claims)
            except ConfigError as error:
                violations += (f"{title}: {line}" for line in error.violations)
            else:
                found.append((title, claims))
    if violations:
        raise ConfigError(violations)
    return found


def _claim_of(
    workload: Workload, entry: PodClaimEntry, by_identity: Mapping[tuple[type, str], Document]
) -> NamedClaim:
    """Return the claim of a pod's entry.

    Raises:
        ConfigError: it is not among the documents.
    """
    kind = ResourceClaimTemplate if entry.template else ResourceClaim
    label = f"{workload.namespace or DEFAULT_NAMESPACE}/{entry.template or entry.claim}"
    document = by_identity.get((kind, label))
    if isinstance(document, ResourceClaim | ResourceClaimTemplate):
        return NamedClaim(label, document.spec)
    hint = did_you_mean(label, [name for of_kind, name in by_identity if of_kind is kind])
    raise ConfigError(
        [
            f"resourceClaims {entry.name}: no {kind.__name__} {label}{hint}; correct the name, "
            "create it, or add its file"
        ]
    )


def _claims(documents: Sequence[Document]) -> tuple[NamedClaim, ...]:
    claims = tuple(
        NamedClaim(_label(document), document.spec)
        for document in documents
        if isinstance(document, ResourceClaim | ResourceClaimTemplate)
    )
    if not claims:
        raise ConfigError(
            ["no ResourceClaim, ResourceClaimTemplate or pod with claims among the files; add one"]
        )
    return claims


def _label(claim: Claim) -> str:
    return f"{claim.namespace or DEFAULT_NAMESPACE}/{claim.name}"


# --------------------------------------------------------------------------- the search


def _explained(
    args: argparse.Namespace,
    title: str,
    claims: Sequence[NamedClaim],
    documents: Sequence[Document],
) -> Explanation:
    classes = classes_of(documents)
    own = {claim.label for claim in claims}
    owners = {_label(claim): claim.allocated for claim in _owners(documents, own)}
    pool_set = with_allocated(
        _pool_set(args, documents, owners),
        ((f"claim {label}", result) for label, results in owners.items() for result in results),
    )
    alternatives, grants, why = explained(claims, classes, pool_set, new_uid=lambda: str(uuid4()))
    found = _configured(alternatives, grants, why, claims, classes)
    return replace(found, title=title, unpublished=tuple(pool_set.excluded))


def _owners(documents: Sequence[Document], own: Collection[str]) -> Iterator[ResourceClaim]:
    """Return the claims that own devices, without those to explain."""
    claims = (document for document in documents if isinstance(document, ResourceClaim))
    return (claim for claim in claims if claim.allocated and _label(claim) not in own)


def _pool_set(
    args: argparse.Namespace, documents: Sequence[Document], counted_elsewhere: Collection[str]
) -> PoolSet:
    """Return the pools of the node and the devices in use.

    The caller adds the shares of the claims in counted_elsewhere.
    """
    slices = slices_among(documents)
    from_inventory = args.inventory is not None or not (args.slices or args.cluster)
    node = node_of_slices(slices, args.node) if slices else ""
    pools = pools_of(slices, node) if slices else ()
    if not from_inventory:
        return PoolSet(pools)
    recorded, uses = observe(state_from(args), counted_elsewhere)
    inventory, facts = inventory_of(args)
    near = near_in(facts, args.feature_gates)
    publishable = node_inventory(inventory, recorded, uses, args.filter, args.shared, facts, near)
    own = pool_set_of(publishable, node_name(args.node or node))
    others = [pool for pool in pools if pool.driver != DRIVER_NAME]
    ordered = sorted([*own.pools, *others], key=lambda pool: (pool.driver, pool.name))
    return replace(own, pools=tuple(ordered))


def _configured(
    alternatives: tuple[AlternativeReport, ...],
    grants: Sequence[Grant],
    why: tuple[str, ...],
    claims: Sequence[NamedClaim],
    classes: dict[str, DeviceClass],
) -> Explanation:
    """Return the explanation with the configuration of each device; an invalid one is a reason."""
    found: list[tuple[Grant, str, object]] = []
    configured: list[SameConfig] = []
    for grant in grants:
        claim = claims[grant.claim]
        config: object = None
        if grant.device.driver == DRIVER_NAME and not grant.admin_access:
            try:
                chosen = config_for(claim, classes, grant.request, first_valid=False)
            except ConfigError as error:
                why = (*why, *(f"claim {claim.label}: {line}" for line in error.violations))
            else:
                config = network_config_to_object(chosen)
                title = f"device {grant.device.name} of claim {claim.label}"
                configured.append(SameConfig(title, chosen))
        found.append((grant, claim.label, config))
    why = (*why, *clashes(configured))
    return Explanation("", alternatives, () if why else tuple(found), tuple(dict.fromkeys(why)))
