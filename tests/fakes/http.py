"""The fake API server behind a real socket: HTTP/1.1 by h11, one connection one task."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qsl, unquote, urlsplit

import h11

from tests.fakes.apiserver import FakeApiServer
from tests.fakes.exchange import Asked, End, Silence, Told, Watching

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
                await _converse(server, reader, writer)
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


async def _converse(server: FakeApiServer, reader: Reader, writer: Writer) -> None:
    connection = h11.Connection(h11.SERVER)
    while True:
        asked = await _asked(connection, reader)
        if asked is None:
            return
        told = server.answer(asked)
        await server.released(asked)
        if told is None:
            return
        if isinstance(told, Silence):
            await reader.read()
            return
        if isinstance(told, Watching):
            await _stream(server, told, connection, reader, writer)
            return
        await _tell(told, connection, writer)
        if connection.our_state is h11.MUST_CLOSE:
            return
        connection.start_next_cycle()


async def _asked(connection: h11.Connection, reader: Reader) -> Asked | None:
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
    return Asked(
        head.method.decode(),
        unquote(url.path),
        dict(parse_qsl(url.query)),
        headers,
        json.loads(body) if body else {},
    )


async def _tell(told: Told, connection: h11.Connection, writer: Writer) -> None:
    plain = isinstance(told.body, bytes)
    body = told.body if isinstance(told.body, bytes) else json.dumps(told.body).encode()
    headers = [
        ("Content-Type", "text/plain" if plain else "application/json"),
        ("Content-Length", str(len(body))),
        *told.headers.items(),
    ]
    _send(connection, writer, h11.Response(status_code=told.status, headers=headers))
    _send(connection, writer, h11.Data(data=body))
    _send(connection, writer, h11.EndOfMessage())
    await writer.drain()


async def _stream(
    server: FakeApiServer,
    watch: Watching,
    connection: h11.Connection,
    reader: Reader,
    writer: Writer,
) -> None:
    """Send events until the server, the client or the time ends the watch."""
    headers = [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")]
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
                told = line.result()
                if told is End.BROKEN:
                    return
                if isinstance(told, End):
                    break
                _send(connection, writer, h11.Data(data=told))
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
