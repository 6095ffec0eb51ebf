"""Command `run`: the daemon."""

import argparse
import asyncio
import os
from typing import Final

from dranet_nri.component.log import configure
from dranet_nri.daemon.process import NriDaemon
from dranet_nri.settings import add_run_flags, settings_from

EXAMPLES: Final = (
    "run",
    "run --verbose --nri-socket /var/run/nri/nri.sock",
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_run_flags(parser)


def main(args: argparse.Namespace) -> int:
    """Serve until stopped.

    Raises:
        InvalidValueError: a flag's value is invalid.
        OSError: a directory cannot be used.
    """
    settings = settings_from(args)
    configure(json=settings.log_json, verbose=settings.verbose)
    asyncio.run(NriDaemon(settings, os.environ).run())
    return 0
