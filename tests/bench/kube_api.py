"""The fake API server as a separate process: python3 -m tests.bench.kube_api SOCKET CRT KEY.

It serves HTTPS on the loopback of its network namespace, for the driver, and HTTP on a Unix socket,
for the benchmark, which is in another namespace. GET /requests there returns how often the driver
asked for what. Requests are read by hand: h11 takes longer than the rest of an answer.
"""

import asyncio
import json
import ssl
import sys
from collections import Counter
from functools import partial
from itertools import count
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.bench.slice_protobuf import MAGIC, decode_slice
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.documents import KINDS, status
from tests.fakes.exchange import End, Request, Response, WatchStream

PORT: Final = 6443
CLAIMS: Final = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
PODS: Final = "/api/v1/namespaces/default/pods"
REQUESTS: Final = "/requests"
END: Final = b"\r\n\r\n"


class Server(FakeApiServer):
    """The fake API server, with what clients of client-go ask for besides."""

    def __init__(self) -> None:
        """Start empty."""
        super().__init__()
        self._suffixes = count(1)

    def answer(self, request: Request) -> Any:
        """Answer a request; a list by watch is refused, so that a client lists and watches."""
        if request.query.get("sendInitialEvents") == "true":
            return Response(422, status(422, "Invalid", "sendInitialEvents: not supported"))
        metadata = request.body.get("metadata", {})
        if request.method == "POST" and "generateName" in metadata and not metadata.get("name"):
            metadata["name"] = f"{metadata['generateName']}{next(self._suffixes)}"
        answer = super().answer(request)
        self.requests.clear()
        if isinstance(answer, Response):
            self._name_list(answer, request)
        return answer

    def _name_list(self, answer: Response, request: Request) -> None:
        """Give a list the kind that client-go looks for."""
        if isinstance(answer.body, dict) and answer.body.get("kind") == "List":
            kind, group = KINDS[request.path.rpartition("/")[2]]
            version = f"{group}/v1" if group else "v1"
            answer.body.update(kind=f"{kind}List", apiVersion=version)


class Connection(asyncio.Protocol):
    """One connection: requests one after the other, or a watch until either side ends.

    Args:
        server: answers.
        seen: how often the driver asked, as "GET resourceclaims".
        counted: it is a connection of the driver.
    """

    def __init__(self, server: Server, counts: Counter[str], *, counted: bool) -> None:
        self._server = server
        self._counts = counts
        self._counted = counted
        self._data = b""
        self._transport: asyncio.Transport | None = None
        self._watch: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        """End the watch."""
        if self._watch is not None:
            self._watch.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer each whole request."""
        self._data += data
        while (end := self._data.find(END)) >= 0:
            head = self._data[:end].decode()
            line, *lines = head.split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (entry.partition(":") for entry in lines)
            }
            whole = end + len(END) + int(headers.get("content-length", "0"))
            if len(self._data) < whole:
                return
            body, self._data = self._data[end + len(END) : whole], self._data[whole:]
            method, target, _version = line.split()
            self._respond(method, target, headers, body)

    def _respond(self, method: str, target: str, headers: dict[str, str], body: bytes) -> None:
        url = urlsplit(target)
        if url.path == REQUESTS:
            self._write(200, json.dumps(self._counts).encode())
            return
        if body.startswith(MAGIC):
            document = decode_slice(body)
        else:
            document = json.loads(body) if body else {}
        request = Request(method, unquote(url.path), dict(parse_qsl(url.query)), headers, document)
        if self._counted:
            self._counts[_named(request)] += 1
        response = self._server.answer(request)
        if isinstance(response, WatchStream):
            self._watch = asyncio.create_task(self._stream(response))
            return
        assert isinstance(response, Response)
        text = (
            response.body
            if isinstance(response.body, bytes)
            else json.dumps(response.body).encode()
        )
        self._write(response.status, text)

    def _write(self, code: int, body: bytes) -> None:
        assert self._transport is not None
        head = f"HTTP/1.1 {code} .\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        self._transport.write(head.encode() + END + body)

    async def _stream(self, watch: WatchStream) -> None:
        assert self._transport is not None
        self._transport.write(
            b"HTTP/1.1 200 .\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked" + END
        )
        try:
            while not isinstance(line := await watch.lines.get(), End):
                self._transport.write(b"%x\r\n%s\r\n" % (len(line), line))
            self._transport.write(b"0" + END)
        finally:
            self._server.close(watch)


def _named(request: Request) -> str:
    """Return "GET resourceclaims", "WATCH resourceslices" or "PATCH resourceclaims/status"."""
    parts = request.path.strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    verb = request.method
    if request.query.get("watch") in ("true", "1"):
        verb = "WATCH"
    elif verb == "GET" and len(rest) == 1:
        verb = "LIST"
    return f"{verb} {'/'.join((*rest[:1], *rest[2:]))}"


async def main(control: str, certificate: str, key: str) -> None:
    """Serve until the end of standard input."""
    server = Server()
    counts: Counter[str] = Counter()
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    loop = asyncio.get_running_loop()
    driver = partial(Connection, server, counts, counted=True)
    await loop.create_server(driver, "127.0.0.1", PORT, ssl=tls)
    await loop.create_unix_server(partial(Connection, server, counts, counted=False), control)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
