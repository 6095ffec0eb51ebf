"""The command line of `kubectl dranet`: its table of subcommands."""

import sys
from collections.abc import Sequence
from typing import Final

from dranet_nri.component.cli import Program

PROGRAM: Final = Program(
    name="kubectl dranet",
    description="Devices and claims of a cluster.",
    package="dra_shim.kubectl",
    verbs=(
        ("status", "show nodes, driver versions, and which pod holds which device"),
        ("free", "show how many GPU and NIC pairs are left on each node"),
        ("topology", "show GPUs and NICs of a node and how near they are, as text and picture"),
        ("explain", "show whether claims can be met, on which node, and why not others"),
        ("verify", "measure the network that pods get by claims; creates pods and deletes them"),
        ("bundle", "write a support archive without secrets"),
    ),
    executable="kubectl-dranet",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand and return the exit status."""
    return PROGRAM.main(sys.argv[1:] if argv is None else argv)
