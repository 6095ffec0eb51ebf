"""Command line of `kubectl dranet`: its table of commands."""

import sys
from collections.abc import Sequence
from typing import Final

from dranet_nri.component.cli import Program

PROGRAM: Final = Program(
    name="kubectl dranet",
    description="Devices and claims of a cluster.",
    package="dra_shim.kubectl",
    commands=(
        ("status", "list nodes, driver versions, and the devices of pods"),
        ("free", "count the free pairs of GPU and NIC on each node"),
        ("topology", "show the distance of a node's GPUs and NICs, as text and picture"),
        ("explain", "show whether claims can be allocated, on which node, and why not"),
        ("verify", "measure the network between pods with claims; creates and deletes pods"),
        ("bundle", "write a support archive without secrets"),
    ),
    executable="kubectl-dranet",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    return PROGRAM.main(sys.argv[1:] if argv is None else argv)
