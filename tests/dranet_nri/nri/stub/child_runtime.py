"""A runtime as a process of its own, to be stopped and killed. Argument: the socket's path."""

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))

from tests.fakes.runtime import RuntimeServer


async def main(path: str) -> None:
    """Serve one plugin and print its progress."""
    async with RuntimeServer(path) as server:
        print("listening", flush=True)  # noqa: T201 - the test reads it
        runtime = await server.connection()
        await runtime.handshake()
        await runtime.ended()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
