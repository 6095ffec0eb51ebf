"""Small HTTP/1.1 server for pages that are generated on request, with h11 as the protocol.

It listens on the network of the node, so any client can connect.

Rules:
1. A request is limited in time and bytes, and so is the time to send its response.
2. A connection above the limit replaces one that waits for its client: first a connection that was
   already served, and of those the one that has been idle for longest. So other clients cannot
   prevent the answer to the kubelet's probe.
3. A page that fails is a 500 without the reason, which is logged; the server continues.
"""

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import h11

from dra_shim.settings.listen_address import ListenAddress
from dranet_nri.component.notice import LogLine, LogNotice

REQUEST_S: Final = 30.0  # seconds for a request to arrive
ANSWER_S: Final = 5.0  # seconds to send a response
MAX_CONNECTIONS: Final = 256
# Connections accepted in one turn of the loop. It is less than the limit of connections, so that a
# request that was sent is read before its connection can be replaced.
_AT_ONCE: Final = 16
_WAITING: Final = 1024  # connections that the kernel holds meanwhile
MAX_HEAD: Final = 16 << 10  # bytes
_PIECE: Final = 16 << 10
_TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Page:
    """An HTTP response."""

    text: str
    status: int = 200
    content_type: str = _TEXT


MakePage = Callable[[], Awaitable[Page]]


@dataclass(frozen=True, slots=True)
class ServerListening(LogNotice):
    """The server listens at this address."""

    log = LogLine("info", "metrics and health served")
    address: ListenAddress


@dataclass(frozen=True, slots=True)
class PageFailed(LogNotice):
    """A page could not be generated; the client got no reason."""

    log = LogLine("error", "page failed")
    path: str
    cause: Exception


Notice = ServerListening | PageFailed


class WebServer:
    """Server of pages by path."""

    def __init__(
        self,
        address: ListenAddress,
        pages: Mapping[str, MakePage],
        notify: Callable[[Notice], None],
        *,
        request_s: float = REQUEST_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        """Create the server; nothing is opened before run.

        Args:
            address: listen address; port 0 for any free port.
            pages: path → function that returns the page.
            notify: called with the listen address, and with failures.
            request_s: seconds for a request to arrive.
            answer_s: seconds to send a response.
        """
        self._address = address
        self._pages = pages
        self._notify = notify
        self._request_s = request_s
        self._answer_s = answer_s
        self._connections: dict[asyncio.Task[None], _Connection] = {}

    async def run(self) -> None:
        """Serve until cancelled.

        Raises:
            OSError: the address is not available.
        """
        host, port = self._address.host or None, self._address.port
        server = await asyncio.start_server(
            self._connected, host, port, limit=_PIECE, backlog=_AT_ONCE
        )
        try:
            for bound in server.sockets:
                with socket.socket(fileno=os.dup(bound.fileno())) as listening:
                    listening.listen(_WAITING)
            port = server.sockets[0].getsockname()[1]
            self._notify(ServerListening(ListenAddress(self._address.host, port)))
            await server.serve_forever()
        finally:
            server.close()
            for connection in self._connections:
                connection.cancel()
            if self._connections:
                await asyncio.wait(self._connections)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        if len(self._connections) >= MAX_CONNECTIONS and not self._evict():
            writer.transport.abort()
            return
        self._connections[connection] = _Connection(
            reader, writer, self._make, self._request_s, self._answer_s
        )
        try:
            with suppress(OSError, TimeoutError, h11.LocalProtocolError, asyncio.CancelledError):
                await self._connections[connection].run()
                writer.close()
                async with asyncio.timeout(self._answer_s):
                    await writer.wait_closed()
        finally:
            self._connections.pop(connection, None)
            writer.transport.abort()  # without waiting for a client that does not read

    def _evict(self) -> bool:
        """Close a connection by rule 2; return False if all generate pages."""
        waiting = [
            (connection.rank, task)
            for task, connection in self._connections.items()
            if connection.waits
        ]
        if waiting:
            _, evicted = min(waiting, key=lambda item: item[0])
            del self._connections[evicted]
            evicted.cancel()
        return bool(waiting)

    async def _make(self, path: str) -> Page:
        make = self._pages.get(path)
        if make is None:
            return Page(f"there are {', '.join(self._pages)}\n", 404)
        try:
            return await make()
        except Exception as error:  # noqa: BLE001 - an error of one page must not end the server
            self._notify(PageFailed(path, error))
            return Page("internal error: the log of dra-shim has the reason\n", 500)


class _Connection:
    """One connection."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        make: Callable[[str], Awaitable[Page]],
        request_s: float,
        answer_s: float,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._make = make
        self._request_s = request_s
        self._answer_s = answer_s
        self._served = False
        self._since = asyncio.get_running_loop().time()  # start of the wait
        self.waits = True  # for the client to send a request or to read a response
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)

    @property
    def rank(self) -> tuple[bool, float]:
        """Return the eviction rank: the lowest is closed first."""
        return not self._served, self._since

    async def run(self) -> None:
        """Answer requests until one side closes."""
        while True:
            try:
                async with asyncio.timeout(self._request_s):
                    request = await self._next_request()
            except h11.RemoteProtocolError as error:
                await self._answer(Page(f"{error}\n", error.error_status_hint), "GET")
                return
            if request is None:
                return
            self.waits = False
            page = await self._page(request)
            self.waits, self._served = True, True
            self._since = asyncio.get_running_loop().time()
            await self._answer(page, request.method.decode())
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _next_request(self) -> h11.Request | None:
        """Return the next request, None at the end of the connection. A body is not read."""
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(_PIECE))
            elif isinstance(event, h11.Request):
                if self._http.their_state is not h11.DONE:
                    self._http.next_event()  # end of a request without a body
                return event
            elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                return None

    async def _page(self, request: h11.Request) -> Page:
        if request.method not in {b"GET", b"HEAD"}:
            return Page("only GET and HEAD\n", 405)
        return await self._make(request.target.partition(b"?")[0].decode("ascii", "replace"))

    async def _answer(self, page: Page, method: str) -> None:
        body = page.text.encode()
        headers = [("Content-Type", page.content_type), ("Content-Length", str(len(body)))]
        if self._http.their_state is not h11.DONE:
            headers.append(("Connection", "close"))
        self._send(h11.Response(status_code=page.status, headers=headers))
        if method != "HEAD":
            self._send(h11.Data(data=body))
        self._send(h11.EndOfMessage())
        async with asyncio.timeout(self._answer_s):
            await self._writer.drain()

    def _send(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
