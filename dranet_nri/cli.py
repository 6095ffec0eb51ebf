"""Command line of `dranet-nri`: its table of commands."""

import sys
from collections.abc import Sequence
from typing import Final

from dranet_nri.component.cli import Program

PROGRAM: Final = Program(
    name="dranet-nri",
    description="Node network driver: NRI plugin.",
    package="dranet_nri.commands",
    commands=(
        ("inventory", "show the devices that can be claimed, and why others cannot"),
        (
            "status",
            "show the devices of pods, failures, and the state of the plugin",
        ),
        ("doctor", "check NRI, CDI, the plugin and RDMA, with remedies"),
        ("healthz", "check that the plugin of this node is alive, for exec probes"),
        ("run", "run the NRI plugin of the node"),
    ),
    daemons=("run",),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status; without arguments, that of this process."""
    if argv is None:
        _leave_out_openssl()
    return PROGRAM.main(sys.argv[1:] if argv is None else argv)


def _leave_out_openssl() -> None:
    """Prevent the import of OpenSSL, because this process uses no TLS; saves 6 MiB of 41.

    asyncio and hashlib import it if available, and work without it. A module that is None in
    sys.modules cannot be imported (Python's reference, "The module cache").
    """
    for name in ("ssl", "_hashlib"):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type] # the type leaves None out
