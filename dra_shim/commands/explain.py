"""The verb `explain`: for each device, why a claim can or cannot have it. Changes nothing."""

import argparse
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from uuid import uuid4

from dra_shim.cel.values import show_amount
from dra_shim.checkpoint.transaction import observe
from dra_shim.commands.documents import read_files
from dra_shim.pool import near_in, stock_of
from dra_shim.resourceapi import DeviceClass, Document, ResourceClaim, ResourceClaimTemplate
from dra_shim.scheduling.allocator import (
    Check,
    Grant,
    Outcome,
    PartReport,
    Supply,
    Wanted,
    config_for,
    explained,
    pools_of,
    supply_of,
    without,
)
from dra_shim.scheduling.inputs import node_of_slices, read_inventory, slices_among
from dra_shim.scheduling.pod_claims import classes_of
from dra_shim.settings.common import (
    DEFAULT_NAMESPACE,
    add_azure_flag,
    add_gates_flag,
    add_shared_flag,
    add_state_flags,
    state_from,
)
from dranet_nri.component.findings import print_lines
from dranet_nri.config import SameConfig, clashes, network_config_to_object
from dranet_nri.errors import ConfigError
from dranet_nri.facts.host import node_name
from dranet_nri.inventory import DEFAULT_FILTER
from dranet_nri.model import DRIVER_NAME

_SAME_ROOT: Final = "matchAttribute resource.kubernetes.io/pcieRoot"
_ROOT_REMEDY: Final = (
    "devices that sit side by side need not have one PCIe root: with Data Direct (ConnectX-8) the "
    "NIC's is another than the GPU's, and some virtual machines show none in common; match "
    "resource.kubernetes.io/numaNode instead"
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of an explanation.

    Attributes:
        parts: every check of every device.
        grants: (what is given, how messages call its claim, its configuration).
        why: why the claims cannot be met, empty if they can.
    """

    parts: tuple[PartReport, ...]
    grants: tuple[tuple[Grant, str, object], ...]
    why: tuple[str, ...]


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument(
        "--claim",
        action="append",
        required=True,
        metavar="FILE",
        help="ResourceClaims or ResourceClaimTemplates of one pod; - for standard input; may be "
        "given several times, as --class, --slices and --claims",
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
        "node's devices; a nodeSelector in them is taken to match",
    )
    parser.add_argument(
        "--claims",
        action="append",
        default=[],
        metavar="FILE",
        help="the other ResourceClaims, such as kubectl get resourceclaims -A -o yaml prints; what "
        "they have is taken, as is what claims among the --class and --slices files have",
    )
    _add_node_flags(parser)
    parser.add_argument("--output", choices=("text", "json"), default="text", help="form")
    add_state_flags(parser)  # fmt: skip


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
        help="devices of the inventory to consider, as dranet's flag; '' for all",
    )
    add_shared_flag(parser)
    add(
        "--node",
        default="",
        metavar="NAME",
        help="the node to allocate on (default: that of the slices, $NODE_NAME, or the host name)",
    )


def main(args: argparse.Namespace) -> int:
    """Print every check and the decision; return 0 if the claims can be met, else 1.

    Raises:
        DranetError: says what is wrong with the files.
        OSError: the records or the inventory cannot be read.
    """
    files = read_files([*args.claim, *args.classes, *args.slices], args.claims)
    asked = tuple(each for name in dict.fromkeys(args.claim) for each in files.pop(name))
    others = tuple(each for documents in files.values() for each in documents)
    claims = _claims(asked)
    classes = classes_of((*asked, *others))
    holders = {_label(each): each.taken for each in _holders(others, asked)}
    supply = without(
        _supply(args, (*asked, *others), holders),
        ((f"claim {label}", each) for label, taken in holders.items() for each in taken),
    )
    parts, grants, why = explained(claims, classes, supply, new_uid=lambda: str(uuid4()))
    found = _configured(parts, grants, why, claims, classes)
    if args.output == "json":
        print(json.dumps(_document(found), indent=2))
    else:
        print_lines(*_lines(found))
    return 1 if found.why else 0


def _claims(documents: Sequence[Document]) -> list[Wanted]:
    claims = [
        Wanted(_label(each), each.spec)
        for each in documents
        if isinstance(each, ResourceClaim | ResourceClaimTemplate)
    ]
    if not claims:
        raise ConfigError(["no ResourceClaim or ResourceClaimTemplate among the files; add one"])
    return claims


def _label(claim: ResourceClaim | ResourceClaimTemplate) -> str:
    return f"{claim.namespace or DEFAULT_NAMESPACE}/{claim.name}"


def _holders(others: Sequence[Document], asked: Sequence[Document]) -> Iterator[ResourceClaim]:
    """Yield the claims that have devices; one that is asked about is taken to have none yet."""
    own = {_label(each) for each in asked if isinstance(each, ResourceClaim)}
    for claim in others:
        if isinstance(claim, ResourceClaim) and claim.taken and _label(claim) not in own:
            yield claim


def _supply(
    args: argparse.Namespace, documents: Sequence[Document], counted: Collection[str]
) -> Supply:
    """Return what there is; what the shares of counted claims consume is counted elsewhere."""
    slices = slices_among(documents)
    from_inventory = args.inventory is not None or not args.slices
    node = node_of_slices(slices, args.node) if args.slices else ""
    pools = pools_of(slices, node) if args.slices else ()
    if not from_inventory:
        return Supply(pools)
    known, uses = observe(state_from(args), counted)
    inventory, facts = read_inventory(args.inventory, args.azure_size)
    near = near_in(facts, args.feature_gates)
    stock = stock_of(inventory, known, uses, args.filter, args.shared, facts, near)
    own = supply_of(stock, node_name(args.node or node))
    others = [pool for pool in pools if pool.driver != DRIVER_NAME]
    ordered = sorted([*own.pools, *others], key=lambda pool: (pool.driver, pool.name))
    return replace(own, pools=tuple(ordered))


def _configured(
    parts: tuple[PartReport, ...],
    grants: Sequence[Grant],
    why: tuple[str, ...],
    claims: Sequence[Wanted],
    classes: dict[str, DeviceClass],
) -> Explanation:
    """Add the configuration of each device; one that is not valid undoes the decision."""
    found: list[tuple[Grant, str, object]] = []
    configured: list[SameConfig] = []
    for grant in grants:
        claim = claims[grant.claim]
        config: object = None
        if grant.offer.driver == DRIVER_NAME and not grant.admin_access:
            try:
                chosen = config_for(claim, classes, grant.request, first_valid=False)
            except ConfigError as error:
                why = (*why, *(f"claim {claim.label}: {line}" for line in error.violations))
            else:
                config = network_config_to_object(chosen)
                title = f"device {grant.offer.name} of claim {claim.label}"
                configured.append(SameConfig(title, chosen))
        found.append((grant, claim.label, config))
    why = (*why, *clashes(configured))
    return Explanation(parts, () if why else tuple(found), tuple(dict.fromkeys(why)))


# --------------------------------------------------------------------------- printing


def _lines(found: Explanation) -> list[str]:
    lines: list[str] = []
    for part in found.parts:
        lines.append(f"claim {part.claim}: request {part.request}: {part.asks}")
        if part.blocked:
            lines.append(f"  cannot be met: {part.blocked}")
        for device in part.devices:
            chosen = ": chosen" if device.chosen else ""
            lines.append(f"  device {'/'.join(device.offer.id)}{chosen}")
            lines += (f"    {_check_text(check)}" for check in device.checks)
    lines.append(f"decision: the claims {'cannot' if found.why else 'can'} be met")
    lines += (f"  {line}" for line in found.why)
    if found.why and _fails_by_root(found):
        lines.append(f"  {_ROOT_REMEDY}")
    lines += (f"  {line}" for line in _grant_lines(found))
    return lines


def _fails_by_root(found: Explanation) -> bool:
    checks = (check for part in found.parts for device in part.devices for check in device.checks)
    return any(each.what == _SAME_ROOT and each.outcome is Outcome.FAILED for each in checks)


def _check_text(check: Check) -> str:
    saw = ", ".join(f"{name} is {value}" for name, value in check.saw)
    shown = f"  [{saw}]" if saw and f"is {check.saw[0][1]}" != check.text else ""
    return f"{check.outcome:<6}  {check.what}: {check.text}{shown}"


def _grant_lines(found: Explanation) -> Iterator[str]:
    for grant, label, _ in found.grants:
        line = f"claim {label}: request {grant.request}: {'/'.join(grant.offer.id)}"
        if grant.admin_access:
            line += ", adminAccess: it stays where it is"
        elif grant.share_id:
            parts = [f"{name} {show_amount(value)}" for name, value in grant.consumed]
            line += f", shared: {', '.join(parts) or 'no capacity'}"
        yield line


def _document(found: Explanation) -> dict[str, object]:
    return {
        "met": not found.why,
        "why": list(found.why),
        "decision": [_grant_document(*each) for each in found.grants],
        "requests": [
            {
                "claim": part.claim,
                "request": part.request,
                "asks": part.asks,
                "blocked": part.blocked,
                "devices": [
                    {
                        **_device_id(device.offer.id),
                        "chosen": device.chosen,
                        "checks": [_check_document(check) for check in device.checks],
                    }
                    for device in part.devices
                ],
            }
            for part in found.parts
        ],
    }


def _grant_document(grant: Grant, label: str, config: object) -> dict[str, object]:
    return {
        "claim": label,
        "request": grant.request,
        **_device_id(grant.offer.id),
        "adminAccess": grant.admin_access,
        "shareID": grant.share_id,
        "consumedCapacity": {name: show_amount(value) for name, value in grant.consumed},
        "config": config,
    }


def _check_document(check: Check) -> dict[str, object]:
    return {
        "check": check.what,
        "outcome": str(check.outcome),
        "text": check.text,
        "saw": dict(check.saw),
    }


def _device_id(identity: tuple[str, str, str]) -> dict[str, str]:
    return dict(zip(("driver", "pool", "device"), identity, strict=True))
