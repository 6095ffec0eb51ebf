"""A plugin as a runtime launches it: three variables, one inherited socket. Ends with it."""

import asyncio
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))

from dranet_nri.nri.stub import Connection, Endpoint, Notice, endpoint_from_environ
from tests.fakes.hooks import RecordingHandler


def say(notice: Notice) -> None:
    """Show a notice to the test."""
    print(notice, flush=True)  # noqa: T201 - the test reads it


def main() -> None:
    """Serve until the runtime is gone."""
    endpoint = endpoint_from_environ(os.environ, Endpoint("other", "99"))
    asyncio.run(Connection(endpoint, RecordingHandler(), say).run())


if __name__ == "__main__":
    main()
