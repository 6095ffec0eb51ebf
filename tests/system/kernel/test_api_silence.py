"""A watch whose server stops without closing, as after the failover of a control plane."""

import asyncio
import ssl
import subprocess
from contextlib import aclosing

import pytest

from dra_shim.kubeapi import (
    SLICE,
    ApiClient,
    HttpClient,
    KeepAlive,
    RestConfig,
    UnavailableError,
)
from dranet_nri.kernel.netns import run_inside
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.http import served

LONG_S = 600  # a watch's own time, which no test waits for


def test_watch_ends_soon_after_its_server_stopped_answering(
    nsfd: int,
) -> None:
    async def scenario() -> None:
        server = FakeApiServer()
        async with served(server) as url:
            access = RestConfig(url, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
            api = ApiClient(HttpClient(access, KeepAlive(1, 1, 2)))
            since = (await api.list(SLICE)).version
            async with aclosing(api.watch(SLICE, {}, since, LONG_S)) as events:
                first = asyncio.ensure_future(anext(events))
                await server.until(lambda: server.watching == 1)
                server.bookmark()
                await first

                set_loopback("down")
                try:
                    with pytest.raises(UnavailableError, match="no connection to"):
                        await anext(events)
                finally:
                    set_loopback("up")
            await api.close()

    def run() -> None:
        set_loopback("up")
        asyncio.run(scenario())

    run_inside(nsfd, run)


def set_loopback(state: str) -> None:
    """Set the loopback of the namespace that the calling thread is in."""
    subprocess.run(("ip", "link", "set", "lo", state), check=True)
