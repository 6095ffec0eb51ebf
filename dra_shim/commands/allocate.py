"""Command `allocate`: allocates the devices of a pod's claims without a cluster."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final
from uuid import uuid4

from dra_shim.checkpoint.transaction import CheckpointTransaction, nonce_for, writing
from dra_shim.checkpoint.usage import addresses_of_parents
from dra_shim.commands.documents import read_documents
from dra_shim.commands.inventory_file import inventory_of
from dra_shim.pool import near_in, node_inventory
from dra_shim.prepare.allocation import is_gated
from dra_shim.prepare.transactions import check_distinct
from dra_shim.resourceapi import DeviceClass
from dra_shim.scheduling.allocator import NamedClaim, allocate
from dra_shim.scheduling.pod_claims import PodClaim, claims_of_pod, classes_of
from dra_shim.settings.common import (
    StatePaths,
    add_azure_flag,
    add_gates_flag,
    add_shared_flag,
    add_state_flags,
    container_listing,
    namespaced_name,
    pod_from,
    state_from,
    uid,
)
from dranet_nri.cdi.names import cdi_ids
from dranet_nri.component.output import add_output_flag, print_lines, show_document, show_table
from dranet_nri.component.replace import replace
from dranet_nri.config import assign_addresses, network_config_to_object
from dranet_nri.errors import RefusedError
from dranet_nri.facts.host import boot_id, node_name
from dranet_nri.model import DEFAULT_FILTER, AllocatedDevice, Allocation, ObjectRef
from dranet_nri.state.lock import PluginLock

EXAMPLES: Final = (
    "allocate --claim claim.yaml --class class.yaml --pod UID --pod-name ml/train \\\n"
    "      --container main=fast",
)
_COLUMNS = ("CLAIM", "REQUEST", "DEVICE", "INTERFACE", "CDI DEVICE")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add = parser.add_argument
    add(
        "--claim",
        action="append",
        required=True,
        metavar="FILE",
        help="ResourceClaims or ResourceClaimTemplates of the pod, and classes; - for standard "
        "input; may be given several times",
    )
    add(
        "--class",
        dest="classes",
        action="append",
        default=[],
        metavar="FILE",
        help="DeviceClasses; may be given several times",
    )
    add("--pod", type=uid, required=True, metavar="UID", help="UID of the pod")
    add("--pod-name", type=namespaced_name, metavar="NS/NAME", help="the pod's name, for messages")
    add(
        "--container",
        dest="containers",
        type=container_listing,
        action="append",
        default=[],
        metavar="NAME=CLAIM[/REQUEST]",
        help="a container that lists the claim, or one request of it",
    )
    _add_choices(parser)
    add_state_flags(parser)


def _add_choices(parser: argparse.ArgumentParser) -> None:
    """Add the flags of devices, configuration and output."""
    add = parser.add_argument
    add(
        "--filter",
        default=DEFAULT_FILTER,
        metavar="CEL",
        help="CEL expression of devices to consider, as of dranet; '' for all",
    )
    add_shared_flag(parser)
    add(
        "--node", default="", metavar="NAME",
        help="pool name (default: $NODE_NAME, else the host name)",
    )  # fmt: skip
    add(
        "--inventory",
        type=Path,
        metavar="FILE",
        help="allocate from this output of 'dranet-nri inventory --output json', not this node",
    )
    add_azure_flag(parser)
    add_gates_flag(parser)
    add(
        "--first-valid-config",
        action="store_true",
        help="dranet's precedence: only the first configuration applies, that of the class",
    )
    add_output_flag(parser)


def main(args: argparse.Namespace) -> int:
    """Allocate and record claims without a record, all or none, and print the result.

    Raises:
        DranetError: the files are invalid, or the claims cannot be allocated.
        OSError: the records cannot be read or written.
    """
    _check_no_daemon(state_from(args))
    documents = read_documents(args.claim)
    pod = pod_from(args)
    claims = claims_of_pod(documents, pod, args.containers)
    classes = classes_of((*documents, *read_documents(args.classes)))
    with CheckpointTransaction(state_from(args)) as transaction:
        for corrupt in transaction.corrupt_records():
            if corrupt.broken.blocking or transaction.quarantined(corrupt.claim_uid):
                _warn(f"the record of claim {corrupt.claim_uid} {corrupt.text}")
        before = [transaction.recorded(claim.ref, pod) for claim in claims]
        missing = [claim for claim, record in zip(claims, before, strict=True) if record is None]
        created = iter(_allocated(args, missing, classes, pod, transaction))
        records = [_current(record) if record else next(created) for record in before]
        if missing:
            check_distinct([*records, *_others(transaction, pod, records)])
        transaction.record([new for new, old in zip(records, before, strict=True) if new != old])
    for claim, record, old in zip(claims, records, before, strict=True):
        _warn_about(claim, record, old)
    if not show_document(
        args.output, lambda: {"claims": [_document(record) for record in records]}
    ):
        show_table([_COLUMNS, *(row for record in records for row in _rows(record))])
    return 0


def _others(
    transaction: CheckpointTransaction, pod: ObjectRef, records: Sequence[Allocation]
) -> Iterator[Allocation]:
    """Yield records of the pod's other claims."""
    shown = {record.claim.uid for record in records}
    return (record for record in transaction.of_pod(pod.uid) if record.claim.uid not in shown)


def _check_no_daemon(state: StatePaths) -> None:
    """Check that no daemon runs: it would remove records of claims that are not on the API server.

    Raises:
        RefusedError: a daemon runs.
        UnwritableError: the lock of the daemon cannot be tested.
    """
    lock = PluginLock(state.daemon_lock)
    with writing(state):
        if not state.directory.exists():
            return
        free = lock.try_acquire()
    if not free:
        raise RefusedError(
            f"--state-dir {state.directory}: 'dra-shim run' is running on this node, and claims "
            "come from its API server; create the claim there, or stop the daemon first"
        )
    lock.release()


def _allocated(
    args: argparse.Namespace,
    claims: Sequence[PodClaim],
    classes: Mapping[str, DeviceClass],
    pod: ObjectRef,
    transaction: CheckpointTransaction,
) -> list[Allocation]:
    if not claims:
        return []
    inventory, facts = inventory_of(args)
    near = near_in(facts, args.feature_gates)
    recorded, uses = transaction.recorded_devices(), transaction.in_use()
    publishable = node_inventory(inventory, recorded, uses, args.filter, args.shared, facts, near)
    results = allocate(
        [NamedClaim(str(claim.ref), claim.spec) for claim in claims],
        classes,
        publishable,
        node_name(args.node),
        new_uid=lambda: str(uuid4()),
        first_valid_config=args.first_valid_config,
    )
    boot = boot_id()
    refs = [replace(claim.ref, uid=claim.ref.uid or str(uuid4())) for claim in claims]
    return [
        Allocation(
            claim=ref,
            pod=pod,
            devices=devices,
            nonce=nonce_for(ref.uid),
            boot_id=boot,
            pod_claim_name=claim.template,
            containers=claim.containers,
        )
        for ref, claim, devices in zip(refs, claims, _leased(results, transaction), strict=True)
    ]


def _leased(
    results: Sequence[tuple[AllocatedDevice, ...]], transaction: CheckpointTransaction
) -> list[tuple[AllocatedDevice, ...]]:
    """Return the devices with leased addresses in place of address ranges."""
    flat = [device for devices in results for device in devices]
    taken = (*transaction.addresses(), *addresses_of_parents(flat))
    leased = iter(assign_addresses([device.config for device in flat], taken))
    return [
        tuple(replace(device, config=next(leased)) for device in devices) for devices in results
    ]


def _current(record: Allocation) -> Allocation:
    """Return the record with the current boot id: the plugin ignores records of other boots."""
    return replace(record, boot_id=boot_id())


def _warn(text: str) -> None:
    print_lines(f"dra-shim: {text}", to=sys.stderr)


def _warn_about(claim: PodClaim, record: Allocation, old: Allocation | None) -> None:
    if old is not None:
        remedy = f"dra-shim release --claim-uid {record.claim.uid}"
        _warn(f"claim {record.claim}: already allocated to this pod, shown as recorded")
        if claim.containers and set(claim.containers) != set(record.containers):
            _warn(f"claim {record.claim}: its containers are as recorded; to change them: {remedy}")
    if not is_gated(record):
        _warn(
            f"ClaimNotGated: claim {record.claim}: no container lists it, or lists one of its "
            "requests, so containers do not wait for its devices; "
            f"add --container NAME={claim.label}"
        )


def _rows(record: Allocation) -> list[tuple[str, ...]]:
    ids = dict(cdi_ids(record))
    return [
        (
            str(record.claim),
            allocated.request,
            allocated.device.name,
            str(allocated.device.attribute("dra.net/ifName") or "-"),
            ids.get(allocated.request, "-"),
        )
        for allocated in record.devices
    ]


def _document(record: Allocation) -> dict[str, object]:
    return {
        "namespace": record.claim.namespace,
        "name": record.claim.name,
        "uid": record.claim.uid,
        "podClaimName": record.pod_claim_name,
        "pod": {
            "namespace": record.pod.namespace,
            "name": record.pod.name,
            "uid": record.pod.uid,
        },
        "devices": [
            {
                "request": allocated.request,
                "pool": allocated.pool,
                "device": allocated.device.name,
                "interface": allocated.device.attribute("dra.net/ifName") or "",
                "config": network_config_to_object(allocated.config),
            }
            for allocated in record.devices
        ],
        "cdi": [{"request": request, "id": name} for request, name in cdi_ids(record)],
        "containers": [
            {"container": listed.container, "request": listed.request}
            for listed in record.containers
        ],
    }
