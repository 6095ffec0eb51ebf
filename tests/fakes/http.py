"""The fake API server behind a real socket: HTTP/1.1 by h11, one connection one task."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from tests.fakes.apiserver import FakeApiServer
from tests.fakes.exchange import End, NoResponse, Request, Response, WatchStream

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter


@asynccontextmanager
async def served(server: FakeApiServer, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """Serve on a free port of the loopback; yield the URL."""
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: Reader, writer: Writer) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with suppress(OSError, h11.RemoteProtocolError, asyncio.CancelledError):
                await _serve_connection(server, reader, writer)
        finally:
            tasks.discard(task)
            writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    finally:
        listening.close()
        for task in tuple(tasks):
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _serve_connection(server: FakeApiServer, reader: Reader, writer: Writer) -> None:
    connection = h11.Connection(h11.SERVER)
    while True:
        request = await _read_request(connection, reader)
        if request is None:
            return
        response = server.answer(request)
        await server.released(request)
        if response is None:
            return
        if isinstance(response, NoResponse):
            await reader.read()
            return
        if isinstance(response, WatchStream):
            await _stream(server, response, connection, reader, writer)
            return
        await _send_response(response, connection, writer)
        if connection.our_state is h11.MUST_CLOSE:
            return
        connection.start_next_cycle()


async def _read_request(connection: h11.Connection, reader: Reader) -> Request | None:
    head: h11.Request | None = None
    body = b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            break
        else:
            return None
    assert head is not None
    url = urlsplit(head.target.decode())
    headers = {name.decode().lower(): value.decode() for name, value in head.headers}
    return Request(
        head.method.decode(),
        unquote(url.path),
        dict(parse_qsl(url.query)),
        headers,
        json.loads(body) if body else {},
    )


async def _send_response(response: Response, connection: h11.Connection, writer: Writer) -> None:
    plain = isinstance(response.body, bytes)
    body = response.body if isinstance(response.body, bytes) else json.dumps(response.body).encode()
    headers = [
        ("Content-Type", "text/plain" if plain else "application/json"),
        ("Content-Length", str(len(body))),
        *response.headers.items(),
    ]
    _send(connection, writer, h11.Response(status_code=response.status, headers=headers))
    _send(connection, writer, h11.Data(data=body))
    _send(connection, writer, h11.EndOfMessage())
    await writer.drain()


async def _stream(
    server: FakeApiServer,
    watch: WatchStream,
    connection: h11.Connection,
    reader: Reader,
    writer: Writer,
) -> None:
    """Send events until the server, the client or the time ends the watch."""
    headers = [
        ("Content-Type", "application/json"),
        ("Transfer-Encoding", "chunked"),
        ("Connection", "close"),
    ]
    _send(connection, writer, h11.Response(status_code=200, headers=headers))
    gone = asyncio.ensure_future(reader.read(1))
    try:
        async with asyncio.timeout(watch.seconds):
            while True:
                line = asyncio.ensure_future(watch.lines.get())
                await asyncio.wait({gone, line}, return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    line.cancel()
                    return
                response = line.result()
                if response is End.BROKEN:
                    return
                if isinstance(response, End):
                    break
                _send(connection, writer, h11.Data(data=response))
                await writer.drain()
    except TimeoutError:
        pass
    finally:
        gone.cancel()
        server.close(watch)
    _send(connection, writer, h11.EndOfMessage())
    await writer.drain()


def _send(connection: h11.Connection, writer: Writer, event: h11.Event) -> None:
    data = connection.send(event)
    if data:
        writer.write(data)
