"""Command `run`: the daemon."""

import argparse
import asyncio
import os
from typing import Final

from dra_shim.settings.run import add_run_flags, settings_from
from dranet_nri.component.log import configure

EXAMPLES: Final = (
    "run",
    "run --kubeconfig /etc/kubernetes/dra-shim.conf --verbose",
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_run_flags(parser)


def main(args: argparse.Namespace) -> int:
    """Serve until stopped.

    Raises:
        InvalidValueError: a flag's value is not usable, or there is no access to an API server.
        OSError: a directory of the shim cannot be used.
    """
    # Imported here: gRPC and the API client would delay other commands by a quarter of a second.
    from dra_shim.daemon.process import ShimDaemon

    settings = settings_from(args)
    configure(json=settings.log_json, verbose=settings.verbose)
    asyncio.run(ShimDaemon(settings, os.environ).run())
    return 0
