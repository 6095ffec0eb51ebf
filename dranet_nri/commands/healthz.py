"""`dranet-nri healthz`: whether the plugin on this node is alive, for exec probes."""

import argparse
from pathlib import Path

from dranet_nri import heartbeat
from dranet_nri.errors import InvalidValueError, StateError
from dranet_nri.settings import RUN


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument("--run-dir", type=Path, default=RUN, help="the plugin's directory")
    parser.add_argument(
        "--ready",
        action="store_true",
        help="also ask whether it is registered at the runtime, for readiness probes",
    )
    parser.add_argument(
        "--max-age",
        type=float,
        default=heartbeat.MOST_S,
        metavar="SECONDS",
        help="how old the heartbeat may be (default: %(default)g)",
    )


def main(args: argparse.Namespace) -> int:
    """Print one line; 1 if it says what is wrong.

    Raises:
        InvalidValueError: a flag's value is not usable.
    """
    if not args.max_age > 0:  # nor is it nan
        raise InvalidValueError(f"--max-age {args.max_age}: must be above 0 seconds")
    try:
        beat = heartbeat.load(args.run_dir)
    except FileNotFoundError:
        print(f"no heartbeat in {args.run_dir}: not started, or it waits for another instance")
        return 1
    except (StateError, OSError) as error:
        print(f"heartbeat of {args.run_dir} cannot be read: {error}")
        return 1
    now_s = heartbeat.boot_s()
    wrong = heartbeat.problems(beat, now_s, most_s=args.max_age)
    if args.ready and not wrong:
        wrong = heartbeat.not_ready(beat)
    print("; ".join((*(wrong or ("ok",)), *heartbeat.remarks(beat, now_s))))
    return 1 if wrong else 0
