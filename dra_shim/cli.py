"""The command line of `dra-shim`: its table of verbs."""

import sys
from collections.abc import Sequence
from typing import Final

from dranet_nri.component.cli import Program

PROGRAM: Final = Program(
    name="dra-shim",
    description="Which device serves which claim.",
    package="dra_shim.commands",
    verbs=(
        ("run", "serve a node of a Kubernetes cluster until stopped"),
        ("validate", "check claims, templates, classes and network configurations"),
        ("allocate", "give a pod the devices its claims ask for, and record it; changes the node"),
        ("explain", "show whether claims can be met, with which devices, and why not others"),
        ("doctor", "say what of this node keeps claims from pods; changes nothing"),
        ("verify", "measure the network that pods get by claims; creates pods and deletes them"),
        ("release", "take an allocation back; changes the node"),
    ),
    daemons=("run",),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb and return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["run"]:
        from dra_shim.settings.run import without_dranet  # as late as the verb itself

        words[1:] = without_dranet(words[1:])
    return PROGRAM.main(words)
