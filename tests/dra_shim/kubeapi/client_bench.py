"""A client and its server, for one test."""

import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from dra_shim.kubeapi import ApiClient, HttpClient, RestConfig
from dra_shim.kubeapi.client import ANSWER_S, WATCH_MARGIN_S
from dra_shim.kubeapi.token_file import TokenFile
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.http import served

Document = dict[str, Any]


class Subject(Protocol):
    """A server whose contract is tested."""

    def client(self) -> AbstractAsyncContextManager[ApiClient]:
        """Return a client of the server, which runs meanwhile, with all rights."""

    def collect_garbage(self) -> None:
        """Remove the objects without an owner."""


class FakeSubject:
    """The in-memory server; its objects are kept between clients."""

    def __init__(self) -> None:
        """Start empty."""
        self._server = FakeApiServer()

    @asynccontextmanager
    async def client(self) -> AsyncIterator[ApiClient]:
        """Run the server."""
        async with talking(self._server) as (_, api):
            yield api

    def collect_garbage(self) -> None:
        """Remove them at once."""
        self._server.collect_garbage()


@asynccontextmanager
async def talking(
    server: FakeApiServer | None = None, token_file: str = ""
) -> AsyncIterator[tuple[FakeApiServer, ApiClient]]:
    """Run a server and a client of it."""
    server = server or FakeApiServer()
    async with served(server) as url, client_of(url, token_file) as api:
        yield server, api


@asynccontextmanager
async def client_of(
    url: str,
    token_file: str = "",
    *,
    answer_s: float = ANSWER_S,
    margin_s: float = WATCH_MARGIN_S,
) -> AsyncIterator[ApiClient]:
    """Return a client of a server."""
    auth = TokenFile(Path(token_file)) if token_file else None
    access = RestConfig(url, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), auth)
    api = ApiClient(HttpClient(access), answer_s=answer_s, margin_s=margin_s)
    try:
        yield api
    finally:
        await api.close()


def slice_document(
    name: str, node: str = "node-1", devices: list[Document] | None = None, **spec: Any
) -> Document:
    """Return a ResourceSlice of the driver as a client writes it, in the shape of v1."""
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": "dra.net",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "nic-0"}] if devices is None else devices,
            **spec,
        },
    }
