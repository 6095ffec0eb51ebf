"""`dra-shim`: a table of verbs."""

import argparse
import sys
from collections.abc import Callable, Sequence

from dra_shim.allocator import AllocationError
from dra_shim.commands import allocate, doctor, explain, release, run, validate
from dra_shim.run_settings import without_dranet
from dranet_nri.errors import ConfigError, DranetError

Add = Callable[[argparse.ArgumentParser], None]
Do = Callable[[argparse.Namespace], int]

VERBS: tuple[tuple[str, str, Add, Do], ...] = (
    ("run", "serve a node of a Kubernetes cluster until stopped",
     run.add_flags, run.main),
    ("validate", "check claims, templates, classes and network configurations",
     validate.add_flags, validate.main),
    ("allocate", "give a pod the devices its claims ask for, and record it; changes the node",
     allocate.add_flags, allocate.main),
    ("explain", "say for each device why a claim can or cannot have it; changes nothing",
     explain.add_flags, explain.main),
    ("doctor", "say what of this node keeps claims from pods; changes nothing",
     doctor.add_flags, doctor.main),
    ("release", "take an allocation back; changes the node",
     release.add_flags, release.main),
)  # fmt: skip

EPILOG = (
    "Exit status: 0 done, 1 refused or failed (one line each on standard error), "
    "2 the command line is wrong, 130 interrupted."
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="dra-shim", description="Which device serves which claim.", epilog=EPILOG
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for name, text, add_flags, function in VERBS:
        verb = verbs.add_parser(name, help=text, description=text, epilog=EPILOG)
        add_flags(verb)
        verb.set_defaults(do=function)
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["run"]:
        words[1:] = without_dranet(words[1:])
    args = parser.parse_args(words)
    do: Do = args.do
    try:
        return do(args)
    except KeyboardInterrupt:
        print("dra-shim: interrupted", file=sys.stderr)
        return 130
    except (DranetError, OSError) as error:
        for line in _lines(error):
            print("dra-shim:", " ".join(line.splitlines()), file=sys.stderr)
        return 1


def _lines(error: Exception) -> tuple[str, ...]:
    match error:
        case ConfigError(violations=lines) | AllocationError(lines=lines):
            return lines
        case _:
            return (str(error),)
