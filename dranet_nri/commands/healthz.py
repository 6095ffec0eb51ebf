"""Command `healthz`: liveness and readiness of the plugin on this node, for exec probes."""

import argparse
from pathlib import Path
from typing import Final

from dranet_nri.component.output import print_lines
from dranet_nri.errors import InvalidValueError
from dranet_nri.settings import RUN
from dranet_nri.state import heartbeat

EXAMPLES: Final = (
    "healthz",
    "healthz --ready --max-age 30",
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--run-dir", type=Path, default=RUN, help="the plugin's directory")
    parser.add_argument(
        "--ready",
        action="store_true",
        help="also check that the plugin is registered at the runtime, for readiness probes",
    )
    parser.add_argument(
        "--max-age",
        type=float,
        default=heartbeat.MAX_AGE_S,
        metavar="SECONDS",
        help="maximum age of the heartbeat in seconds (default: %(default)g)",
    )


def main(args: argparse.Namespace) -> int:
    """Print one line; return 1 if it reports a problem.

    Raises:
        InvalidValueError: a flag's value is invalid.
    """
    if not args.max_age > 0:  # False for nan, too
        raise InvalidValueError(f"--max-age {args.max_age}: must be above 0 seconds")
    health = heartbeat.plugin_health(args.run_dir, max_age_s=args.max_age)
    wrong = health.problems if args.ready else health.not_live
    print_lines("; ".join((*(wrong or ("ok",)), *health.remarks)))
    return 1 if wrong else 0
