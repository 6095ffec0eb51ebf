"""The shim's pages over real HTTP: content, access, and paths that are not served."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from httpx2 import AsyncClient, Response

from dra_shim.settings.listen_address import ListenAddress, parse_address
from dra_shim.web import PageFailed, WebServer
from dra_shim.web.server import MAX_CONNECTIONS, Page
from dranet_nri.errors import InvalidValueError
from tests.dra_shim.web.web_bench import WebNotices

pytestmark = pytest.mark.process


async def hello() -> Page:
    """Return a page."""
    return Page("hello\n")


async def broken() -> Page:
    """Fail."""
    raise RuntimeError("oops")


SLOW_REQUESTS = asyncio.Semaphore(0)  # started requests of /slow
ANSWER = asyncio.Event()


async def slow() -> Page:
    """Return a page once ANSWER is set."""
    SLOW_REQUESTS.release()
    await ANSWER.wait()
    return await hello()


LARGE = 64 << 20  # bytes; more than the kernel takes for a client that does not read


async def large() -> Page:
    """Return a page larger than a client buffers."""
    return Page("x" * LARGE)


PAGES: Mapping[str, Callable[[], Awaitable[Page]]] = {
    "/hello": hello,
    "/broken": broken,
    "/slow": slow,
    "/large": large,
}
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def hello_of(stream: Stream) -> bytes:
    """Ask for a page; return what came back."""
    stream[1].write(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n")
    return await stream[0].readuntil(b"hello\n")


async def connected(port: int) -> Stream:
    """Return an idle connection that has been served once."""
    stream = await asyncio.open_connection("127.0.0.1", port)
    await hello_of(stream)
    return stream


@asynccontextmanager
async def served(
    *, request_s: float = 60.0, answer_s: float = 60.0, failed: list[PageFailed] | None = None
) -> AsyncIterator[int]:
    """Serve PAGES on a free port of the loopback; yield the port."""
    notices = WebNotices()
    server = WebServer(
        ListenAddress("127.0.0.1", 0), PAGES, notices, request_s=request_s, answer_s=answer_s
    )
    task = asyncio.create_task(server.run())
    either: set[asyncio.Future[Any]] = {task, notices.listening}
    await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    try:
        yield notices.listening.result().address.port
        if failed is not None:
            failed += notices.failed
    finally:
        task.cancel()
        await asyncio.wait({task})
    assert task.cancelled()


def response_to(method: str, path: str) -> Response:
    """Return the answer to one request."""

    async def scenario() -> Response:
        async with served() as port, AsyncClient() as client:
            return await client.request(method, f"http://127.0.0.1:{port}{path}")

    return asyncio.run(scenario())


def answer_to(data: bytes, *, request_s: float = 60.0) -> bytes:
    """Send bytes; return all that comes back until the end of the connection."""

    async def scenario() -> bytes:
        async with served(request_s=request_s) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            try:
                return await reader.read()
            finally:
                writer.close()

    return asyncio.run(scenario())


def test_page_is_served_as_text() -> None:
    answer = response_to("GET", "/hello?whatever=1")

    assert answer.status_code == 200
    assert answer.text == "hello\n"
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"


def test_head_has_the_headers_of_get() -> None:
    answer = response_to("HEAD", "/hello")

    assert answer.status_code == 200
    assert answer.headers["content-length"] == "6"
    assert answer.content == b""


@pytest.mark.parametrize(
    ("method", "path", "status", "expected"),
    [
        ("GET", "/", 404, "there are /hello, /broken"),
        ("GET", "/hello/", 404, "there are"),
        ("POST", "/hello", 405, "only GET and HEAD"),
        ("GET", "/broken", 500, "internal error: the log of dra-shim has the reason"),
    ],
)
def test_unknown_path_is_answered_with_one_line(
    method: str, path: str, status: int, expected: str
) -> None:
    answer = response_to(method, path)

    assert answer.status_code == status
    assert expected in answer.text
    assert answer.text.count("\n") == 1


def test_error_of_a_page_is_logged_and_not_sent_to_clients() -> None:
    failed: list[PageFailed] = []

    async def scenario() -> Response:
        async with served(failed=failed) as port, AsyncClient() as client:
            return await client.get(f"http://127.0.0.1:{port}/broken")

    answer = asyncio.run(scenario())

    assert "oops" not in answer.text
    assert "RuntimeError" not in answer.text
    ((path, cause),) = [(request.path, request.cause) for request in failed]
    assert path == "/broken"
    assert str(cause) == "oops"


def test_connection_serves_several_requests() -> None:
    request = b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    assert answer_to(request * 3 + last).count(b"hello\n") == 4


def test_connection_is_closed_after_a_request_with_a_body() -> None:
    head = b"POST /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"

    answer = answer_to(head + b"x" * 10)

    assert answer.startswith(b"HTTP/1.1 405 ")
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS\r\n\r\n", b"400"),
        (b"GET /hello HTTP/1.1\r\n\r\n", b"400"),  # without Host
        (b"GET /hello HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 40_000, b"431"),
    ],
    ids=["tls", "no-host", "huge"],
)
def test_malformed_request_is_refused(data: bytes, status: bytes) -> None:
    assert answer_to(data).startswith(b"HTTP/1.1 " + status + b" ")


@pytest.mark.parametrize("data", [b"", b"GET /hello HTT"], ids=["silent", "slow"])
def test_client_that_does_not_finish_a_request_is_disconnected(data: bytes) -> None:
    assert answer_to(data, request_s=0.01) == b""


@pytest.mark.parametrize("headers", [b"", b"Connection: close\r\n"], ids=["kept", "last"])
def test_client_that_does_not_read_the_response_is_disconnected(headers: bytes) -> None:
    async def scenario() -> int:
        async with served(answer_s=0.01) as port:
            others = asyncio.all_tasks()
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
            writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n")
            read = len(await reader.readexactly(1))
            await asyncio.wait(asyncio.all_tasks() - others)
            with suppress(ConnectionResetError):
                while data := await reader.read(1 << 20):
                    read += len(data)
            writer.close()
            return read

    assert 0 < asyncio.run(scenario()) < LARGE


def test_new_client_above_the_limit_replaces_the_longest_idle_one() -> None:
    async def scenario() -> tuple[bytes, bytes, bytes]:
        async with served() as port:
            held = [await connected(port) for _ in range(MAX_CONNECTIONS)]
            again = await hello_of(held[0])  # it is not the second that has waited longest
            next_connection = await connected(port)
            answered = await hello_of(next_connection)
            others = await asyncio.gather(
                *(hello_of(stream) for stream in (held[0], *held[2:])), return_exceptions=True
            )
            assert [other for other in others if isinstance(other, BaseException)] == []
            closed_connection = await held[1][0].read()
            for _, writer in (*held, next_connection):
                writer.close()
            return again, answered, closed_connection

    again, answered, closed_connection = asyncio.run(scenario())

    assert again.endswith(b"hello\n")
    assert answered.endswith(b"hello\n")
    assert closed_connection == b""


def test_new_client_above_the_limit_is_refused_while_all_are_busy() -> None:
    async def scenario() -> tuple[bytes, bytes]:
        async with served() as port:
            held = [await connected(port) for _ in range(MAX_CONNECTIONS)]
            for _, writer in held:
                writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
                await SLOW_REQUESTS.acquire()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                refused = await reader.read()
            except ConnectionResetError:
                refused = b""
            ANSWER.set()
            still_served = await held[-1][0].readuntil(b"hello\n")
            for _, talk in (*held, (reader, writer)):
                talk.close()
            return refused, still_served

    refused, still_served = asyncio.run(scenario())

    assert refused == b""
    assert still_served.endswith(b"hello\n")


def test_occupied_address_is_a_fatal_error() -> None:
    async def scenario() -> None:
        async with served() as port:
            await WebServer(ListenAddress("127.0.0.1", port), PAGES, lambda _: None).run()

    with pytest.raises(OSError, match="address already in use"):
        asyncio.run(scenario())


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":9177", ListenAddress("", 9177)),
        ("127.0.0.1:80", ListenAddress("127.0.0.1", 80)),
        ("localhost:0", ListenAddress("localhost", 0)),
        ("[::1]:9177", ListenAddress("::1", 9177)),
        ("[fe80::1%eth0]:65535", ListenAddress("fe80::1%eth0", 65535)),
    ],
)
def test_address_is_parsed_and_printed_alike(text: str, address: ListenAddress) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "9177", ":", ":x", ":65536", "::1:80", "[::1]", "[]:1", "a:1:2"]
)
def test_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError, match="must be HOST:PORT"):
        parse_address(text)
