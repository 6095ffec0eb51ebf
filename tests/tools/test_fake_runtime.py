"""The fake runtime's clean-up: no connection is left open, whenever a plugin connects."""

from __future__ import annotations

import asyncio
import gc
import socket
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.fakes.runtime import RuntimeServer

pytestmark = pytest.mark.process


@pytest.mark.parametrize("turns", range(8))
def test_connection_that_arrives_at_shutdown_is_closed(tmp_path: Path, turns: int) -> None:
    path = str(tmp_path / "nri.sock")

    async def scenario() -> None:
        async with RuntimeServer(path):
            plugin.connect(path)
            for _ in range(turns):
                await asyncio.sleep(0)

    with closing(socket.socket(socket.AF_UNIX)) as plugin:
        asyncio.run(scenario())
        gc.collect()  # what was not closed is a warning now, and pytest makes it an error
        plugin.settimeout(30)
        with suppress(ConnectionResetError):
            assert plugin.recv(1) == b""
