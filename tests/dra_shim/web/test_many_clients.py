"""The kubelet's probe under the load of a thousand misbehaving clients. It is always answered.

The clients are a process of their own, so that they have no part in the time of the server.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from httpx2 import AsyncClient

from dra_shim.settings.listen_address import ListenAddress
from dra_shim.web import HealthChecks, Metrics, PluginTelemetry, WebServer, pages
from dra_shim.web.server import Page
from tests.dra_shim.web.web_bench import WebNotices

pytestmark = pytest.mark.process


CLIENTS = 1000
PROBES = 20
PROBE_S = 60.0  # ends a test that hangs; nothing is tried again
HEAD = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"

# Opens so many connections, sends what it is given on each and reads nothing; opens each anew that
# the server ends, after some seconds. Prints "ready" when all have been open once.
CLIENT_PROGRAM = """
import collections, select, socket, sys, time
port, count, data = int(sys.argv[1]), int(sys.argv[2]), bytes.fromhex(sys.argv[3])
ready, clients, ended, opened = select.epoll(), {}, collections.deque(), 0
def connect():
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.setblocking(False)
    client.connect_ex(("127.0.0.1", port))
    clients[client.fileno()] = client
    ready.register(client, select.EPOLLOUT)
for _ in range(count):
    connect()
while True:
    for fd, events in ready.poll(0.1):
        if events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR):
            clients.pop(fd).close()
            ended.append(time.monotonic())
            continue
        clients[fd].send(data)
        ready.modify(fd, select.EPOLLRDHUP)
        opened += 1
        if opened == count:
            print("ready", flush=True)
    while ended and ended[0] + 3 < time.monotonic():
        ended.popleft()
        connect()
"""


async def metrics() -> Page:
    """Return a page as large as those of a busy node."""
    return Page("x" * (1 << 18))


async def healthy() -> Page:
    """Return what the probe asks for."""
    return Page("ok\n")


async def probed(port: int) -> str:
    """Send a probe as the kubelet does, on a new connection."""
    async with AsyncClient(timeout=PROBE_S) as kubelet:
        return (await kubelet.get(f"http://127.0.0.1:{port}/healthz")).text


@asynccontextmanager
async def served_under_load(data: bytes) -> AsyncIterator[int]:
    """Serve beside clients that each send data; yield the port when all are connected."""
    notices = WebNotices()
    served = {"/metrics": metrics, "/healthz": healthy}
    server = asyncio.create_task(WebServer(ListenAddress("127.0.0.1", 0), served, notices).run())
    port = (await notices.listening).address.port
    clients = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT_PROGRAM, str(port), str(CLIENTS), data.hex(),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert clients.stdout is not None
        assert await clients.stdout.readline() == b"ready\n"
        yield port
        assert clients.returncode is None
    finally:
        clients.kill()
        await clients.wait()
        assert await probed(port) == "ok\n"  # all earlier connections are accepted by then
        server.cancel()
        await asyncio.wait({server})


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(HEAD + b"\r\n", id="ask for metrics"),
        pytest.param((HEAD + b"\r\n") * 50, id="ask for metrics again and again"),
        pytest.param(HEAD, id="begin to ask"),
        pytest.param(b"", id="say nothing"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\r\n\r\n", id="speak TLS"),
        pytest.param(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 50, id="ask for health"),
    ],
)
def test_probe_is_answered_while_a_thousand_clients_are_connected(data: bytes) -> None:
    async def scenario() -> list[str]:
        async with served_under_load(data) as port:
            return [await probed(port) for _ in range(PROBES)]

    assert asyncio.run(scenario()) == ["ok\n"] * PROBES


def test_concurrent_probes_share_one_result_and_later_ones_get_a_new_one(
    tmp_path: Path,
) -> None:
    async def scenario() -> list[str]:
        requests, answer = [0], asyncio.Event()

        async def slow() -> str:
            requests[0] += 1
            await answer.wait()
            return f"look {requests[0]}"

        checks = HealthChecks(slow, lambda: "", lambda: True)
        healthz = pages(Metrics(), PluginTelemetry(tmp_path), checks)["/healthz"]
        gone, first, second = (asyncio.ensure_future(healthz()) for _ in range(3))
        await asyncio.sleep(0)
        gone.cancel()  # its client hung up
        await asyncio.sleep(0)
        answer.set()
        return [(await answer).text for answer in (first, second, asyncio.ensure_future(healthz()))]

    first, second, later = asyncio.run(scenario())

    assert first == second == "a kubelet would not be answered: look 1\n"
    assert later == "a kubelet would not be answered: look 2\n"
