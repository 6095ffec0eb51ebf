"""`dranet-nri`: a table of verbs.

A verb is imported when it is asked for: a probe that runs every few seconds must stay light.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Protocol, cast

from dranet_nri.errors import DranetError

VERBS: tuple[tuple[str, str], ...] = (
    ("inventory", "show the devices that can be claimed, and why others cannot"),
    ("status", "show which pod holds which device, what went wrong, and if the plugin is at work"),
    ("doctor", "show what keeps pods from their devices, and what to do"),
    ("healthz", "say whether the plugin on this node is alive, for exec probes"),
    ("run", "serve as the node's NRI plugin"),
)

EPILOG = "Exit status: 0 done, 1 the request failed, 2 the command line is wrong."


class Verb(Protocol):
    """A module of dranet_nri.commands, named as its verb."""

    def add_flags(self, parser: argparse.ArgumentParser) -> None:
        """Add the verb's flags."""

    def main(self, args: argparse.Namespace) -> int:
        """Do it; return the exit status."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(
        prog="dranet-nri", description="Node network driver: NRI plugin.", epilog=EPILOG
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    asked = next((word for word in argv if not word.startswith("-")), "")
    for name, text in VERBS:
        verb = verbs.add_parser(name, help=text, description=text, epilog=EPILOG)
        if name == asked:
            _module(name).add_flags(verb)
    args = parser.parse_args(argv)
    try:
        return _module(args.verb).main(args)
    except (DranetError, OSError) as error:
        print(f"dranet-nri: {error}", file=sys.stderr)
        return 1


def _module(verb: str) -> Verb:
    return cast("Verb", import_module(f"dranet_nri.commands.{verb}"))
