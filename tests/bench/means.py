"""The means of the DRA shim alone, as a process: python3 -m tests.bench.means SOCKET KIND.

It serves Prepare and Unprepare on a Unix socket with the libraries of the shim, without its work:

aio      grpc.aio with an empty answer
threads  grpc with a pool of one thread, and an empty answer
shim     grpc.aio; Prepare gets claim and pod with aiohttp, and saves a file durably on a thread;
         Unprepare removes the file durably on a thread
"""

import asyncio
import json
import ssl
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import aiohttp
import grpc

from dra_shim._gen import dra_v1_pb2 as messages
from dranet_nri.component.files import FileSystem, remove, save
from dranet_nri.component.threads import in_thread
from tests.bench.drivers import ACCOUNT, SERVICE
from tests.bench.kube_api import CLAIMS, PODS, PORT

DURABLE_ROOT: Final = "/run"  # as the records of the shim in the benchmark
RECORD: Final = b"x" * 1024


class Shim:
    """Prepare and Unprepare without any check, with one file for each claim."""

    def __init__(self, directory: Path) -> None:
        """Use a directory for the files."""
        self._directory = directory
        self._fs = FileSystem()
        self._session = aiohttp.ClientSession(
            f"https://127.0.0.1:{PORT}",
            connector=aiohttp.TCPConnector(
                ssl=ssl.create_default_context(cafile=ACCOUNT / "ca.crt"), keepalive_timeout=80
            ),
            headers={"Authorization": f"Bearer {(ACCOUNT / 'token').read_text()}"},
        )

    async def prepare(self, request: Any, _: object) -> messages.NodePrepareResourcesResponse:
        """Get each claim and its pod, and save a file."""
        for claim in request.claims:
            document = await self._get(f"{CLAIMS}/{claim.name}")
            await self._get(f"{PODS}/{document['status']['reservedFor'][0]['name']}")
            path = self._directory / claim.uid
            await in_thread(partial(save, self._fs, path, RECORD))
        return messages.NodePrepareResourcesResponse()

    async def unprepare(self, request: Any, _: object) -> messages.NodeUnprepareResourcesResponse:
        """Remove the file of each claim."""
        for claim in request.claims:
            path = self._directory / claim.uid
            await in_thread(partial(remove, self._fs, path))
        return messages.NodeUnprepareResourcesResponse()

    async def close(self) -> None:
        """Close the connection to the API server."""
        await self._session.close()

    async def _get(self, path: str) -> Any:
        async with self._session.get(path) as response:
            return json.loads(await response.read())


def handler(prepare: Any, unprepare: Any) -> grpc.GenericRpcHandler:
    """Return the handler of the DRA service with these calls."""
    service, _, _ = SERVICE.strip("/").partition("/")
    return grpc.method_handlers_generic_handler(
        service,
        {
            "NodePrepareResources": grpc.unary_unary_rpc_method_handler(
                prepare,
                messages.NodePrepareResourcesRequest.FromString,
                messages.NodePrepareResourcesResponse.SerializeToString,
            ),
            "NodeUnprepareResources": grpc.unary_unary_rpc_method_handler(
                unprepare,
                messages.NodeUnprepareResourcesRequest.FromString,
                messages.NodeUnprepareResourcesResponse.SerializeToString,
            ),
        },
    )


async def serve(path: str, *, empty: bool) -> None:
    """Serve with grpc.aio until the end of standard input."""

    async def prepare(_: object, __: object) -> messages.NodePrepareResourcesResponse:
        return messages.NodePrepareResourcesResponse()

    async def unprepare(_: object, __: object) -> messages.NodeUnprepareResourcesResponse:
        return messages.NodeUnprepareResourcesResponse()

    server = grpc.aio.server()
    with tempfile.TemporaryDirectory(dir=DURABLE_ROOT) as directory:
        shim = None if empty else Shim(Path(directory))
        calls = (shim.prepare, shim.unprepare) if shim else (prepare, unprepare)
        server.add_generic_rpc_handlers([handler(*calls)])
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        await asyncio.to_thread(sys.stdin.read)
        if shim:
            await shim.close()


def serve_with_threads(path: str) -> None:
    """Serve with a pool of one thread until the end of standard input."""
    server = grpc.server(ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers(
        [
            handler(
                lambda _, __: messages.NodePrepareResourcesResponse(),
                lambda _, __: messages.NodeUnprepareResourcesResponse(),
            )
        ]
    )
    server.add_insecure_port(f"unix:{path}")
    server.start()
    sys.stdin.read()


if __name__ == "__main__":
    socket_path, kind = sys.argv[1:3]
    if kind == "threads":
        serve_with_threads(socket_path)
    else:
        asyncio.run(serve(socket_path, empty=kind == "aio"))
