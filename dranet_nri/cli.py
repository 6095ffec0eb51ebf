"""`dranet-nri`: a table of verbs."""

import argparse
import sys
from collections.abc import Callable, Sequence

from dranet_nri.commands import doctor, inventory, run, status
from dranet_nri.errors import DranetError

Add = Callable[[argparse.ArgumentParser], None]
Do = Callable[[argparse.Namespace], int]

VERBS: tuple[tuple[str, str, Add, Do], ...] = (
    ("inventory", "show the devices that can be claimed, and why others cannot",
     inventory.add_flags, inventory.main),
    ("status", "show which pod holds which device, and what went wrong",
     status.add_flags, status.main),
    ("doctor", "show what keeps RDMA from working in pods, and what to do",
     doctor.add_flags, doctor.main),
    ("run", "serve as the node's NRI plugin", run.add_flags, run.main),
)  # fmt: skip

EPILOG = "Exit status: 0 done, 1 the request failed, 2 the command line is wrong."


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="dranet-nri", description="Node network driver: NRI plugin.", epilog=EPILOG
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, text, add_flags, function in VERBS:
        verb = verbs.add_parser(name, help=text, description=text, epilog=EPILOG)
        add_flags(verb)
        verb.set_defaults(do=function)
    args = parser.parse_args(argv)
    do: Do = args.do
    try:
        return do(args)
    except (DranetError, OSError) as error:
        print(f"dranet-nri: {error}", file=sys.stderr)
        return 1
