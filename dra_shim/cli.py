"""The command line of `dra-shim`: its table of verbs."""

import sys
from collections.abc import Sequence
from typing import Final

from dranet_nri.component.cli import Program
from dranet_nri.component.findings import print_lines
from dranet_nri.errors import DranetError

PROGRAM: Final = Program(
    name="dra-shim",
    description="Which device serves which claim.",
    package="dra_shim.commands",
    verbs=(
        ("run", "serve a node of a Kubernetes cluster until stopped"),
        ("validate", "check claims, templates, classes and network configurations"),
        ("allocate", "give a pod the devices its claims ask for, and record it; changes the node"),
        ("explain", "say for each device why a claim can or cannot have it; changes nothing"),
        ("doctor", "say what of this node keeps claims from pods; changes nothing"),
        ("release", "take an allocation back; changes the node"),
    ),
    epilog="Exit status: 0 done, 1 refused or failed (one line each on standard error), "
    "2 the command line is wrong, 130 interrupted.",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["run"]:
        from dra_shim.settings.run import without_dranet  # as late as the verb itself

        words[1:] = without_dranet(words[1:])
    verb, args = PROGRAM.parse(words)
    try:
        return verb.main(args)
    except KeyboardInterrupt:
        print_lines("dra-shim: interrupted", to=sys.stderr)
        return 130
    except (DranetError, OSError) as error:
        for line in error.lines if isinstance(error, DranetError) else (str(error),):
            print_lines(f"dra-shim: {' '.join(line.splitlines())}", to=sys.stderr)
        return 1
