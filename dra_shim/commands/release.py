"""The verb `release`: take an allocation back."""

import argparse
import sys

from dra_shim.ledger import Ledger
from dra_shim.settings import add_state_flags, namespaced_name, state_from, uid


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--claim-uid", type=uid, metavar="UID", help="the claim with this UID")
    which.add_argument(
        "--claim", type=namespaced_name, metavar="NS/NAME", help="the claim with this name"
    )
    which.add_argument("--pod", type=uid, metavar="UID", help="all claims of this pod")
    add_state_flags(parser)


def main(args: argparse.Namespace) -> int:
    """Remove the records; none to remove is success as well.

    Raises:
        OSError: the records cannot be read or removed.
    """
    with Ledger(state_from(args)) as ledger:
        broken = dict(ledger.broken())
        if args.pod is not None:
            title, records = f"pod {args.pod}", ledger.of_pod(args.pod)
        elif args.claim is not None:
            title, records = f"claim {'/'.join(args.claim)}", ledger.named(*args.claim)
        else:
            title, records = f"claim {args.claim_uid}", ledger.by_uid(args.claim_uid)
        for record in records:
            ledger.forget(record.claim.uid)
            devices = ", ".join(each.device.name for each in record.devices)
            print(f"released claim {record.claim} of pod {record.pod}: {devices}")
        if args.claim_uid in broken:
            ledger.forget(args.claim_uid)
            print(f"moved aside the record of claim {args.claim_uid}: {broken[args.claim_uid]}")
        elif not records:
            print(f"nothing to release: {title} has no allocation")
        for unusable in broken.keys() - {args.claim_uid}:
            print(
                f"dra-shim: the record of claim {unusable} cannot be used and was left alone: "
                f"{broken[unusable]}; dra-shim release --claim-uid {unusable} drops it",
                file=sys.stderr,
            )
    return 0
