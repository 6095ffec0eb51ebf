"""Command line of `dra-shim`: its table of commands."""

import sys
from collections.abc import Sequence
from typing import Final

from dranet_nri.component.cli import Program

PROGRAM: Final = Program(
    name="dra-shim",
    description="Kubernetes DRA driver for network devices, without kernel privileges.",
    package="dra_shim.commands",
    commands=(
        ("run", "run the DRA driver of a node"),
        ("validate", "check claims, templates, classes and network configurations"),
        ("allocate", "allocate the devices of claims to a pod, and record them; changes the node"),
        (
            "explain",
            "show whether claims can be allocated, on which devices, and why not; read-only",
        ),
        ("doctor", "check API server, rights, slices, kubelet and claims of a node; read-only"),
        ("verify", "measure the network between pods with claims; creates and deletes pods"),
        ("release", "remove an allocation; changes the node"),
    ),
    daemons=("run",),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words[:1] == ["run"]:
        from dra_shim.settings.run import without_dranet  # imported only for this command

        words[1:] = without_dranet(words[1:])
    return PROGRAM.main(words)
