"""`dra-shim doctor`: findings about the running shim, with and without an answer."""

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from dra_shim.cli import main
from dra_shim.commands.doctor_checks import shim_findings
from dra_shim.settings.listen_address import ListenAddress
from dra_shim.web import HealthChecks, Metrics, PluginTelemetry, WebServer, pages
from dra_shim.web.server import MakePage, Page
from dranet_nri.component.findings import Finding, Severity
from tests.dra_shim.kubeletplugin.kubelet_bench import Node, short_directory
from tests.dra_shim.web.web_bench import WebNotices

pytestmark = pytest.mark.process


__all__ = ["short_directory"]

READY = Finding("shim", Severity.OK, "registered at the kubelet, and its devices are published")


@asynccontextmanager
async def serving(made: Mapping[str, MakePage]) -> AsyncIterator[ListenAddress]:
    """Serve pages on a free port of the loopback; yield the address."""
    notices = WebNotices()
    server = asyncio.create_task(WebServer(ListenAddress("127.0.0.1", 0), made, notices).run())
    try:
        yield (await notices.listening).address
    finally:
        server.cancel()
        await asyncio.wait({server})


async def found(address: ListenAddress, answer_s: float = 60.0) -> list[Finding]:
    """Return the findings about the shim at an address."""
    return [finding async for finding in shim_findings(address, answer_s)]


def of_page(page: Page) -> list[Finding]:
    """Return the findings about a shim that answers with a page."""

    async def make() -> Page:
        return page

    async def scenario() -> list[Finding]:
        async with serving({"/readyz": make}) as address:
            return await found(address)

    return asyncio.run(scenario())


def test_doctor_reports_whether_the_shim_is_registered(short_directory: Path) -> None:
    node = Node(short_directory)
    checks = HealthChecks.of(node.sockets, node.plugin, lambda: True)

    async def scenario() -> tuple[list[Finding], list[Finding]]:
        async with serving(pages(Metrics(), PluginTelemetry(short_directory), checks)) as address:
            silent = await found(address)
            async with node.registered():
                return silent, await found(address)

    (unreachable,), reachable = asyncio.run(scenario())
    node.close()

    assert unreachable.grade is Severity.BAD
    assert unreachable.text.startswith(
        "not registered at the kubelet: no answer yet; if the kubelet does "
    )
    assert str(node.sockets.registration.parent) in unreachable.text
    assert "/var/lib/k0s/kubelet" in unreachable.text
    assert reachable == [READY]


def test_each_line_of_a_not_ready_answer_is_a_finding() -> None:
    assert of_page(Page("not registered\nnot published\n", 503)) == [
        Finding("shim", Severity.BAD, "not registered"),
        Finding("shim", Severity.BAD, "not published"),
    ]


@pytest.mark.parametrize(
    "page", [Page("there are /metrics\n", 404), Page("", 503), Page("busy\n", 500)]
)
def test_answer_of_another_program_is_reported(page: Page) -> None:
    (finding,) = of_page(page)

    assert finding.grade is Severity.WARNING
    assert finding.text.partition(": ")[2] == (
        f"answers {page.status}, so it is another program's; stop that (dranet?), or start "
        "'dra-shim run' with another --bind-address and give that here, too"
    )


def test_long_answer_is_truncated() -> None:
    (finding,) = of_page(Page("x" * 1_000_000, 503))

    assert len(finding.text) == 4096


@pytest.mark.parametrize("host", ["", "0.0.0.0"])
def test_shim_that_listens_on_all_addresses_is_requested_on_the_loopback(host: str) -> None:
    async def make() -> Page:
        return Page("ok\n")

    async def scenario() -> list[Finding]:
        async with serving({"/readyz": make}) as address:
            return await found(ListenAddress(host, address.port))

    assert asyncio.run(scenario()) == [READY]


@pytest.mark.parametrize("reply", [b"SSH-2.0-OpenSSH\r\n", b"", None], ids=["ssh", "end", "mute"])
def test_peer_without_http_is_reported_as_no_answer(reply: bytes | None) -> None:
    async def scenario() -> list[Finding]:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            listening.setblocking(False)  # noqa: FBT003
            address = ListenAddress("127.0.0.1", listening.getsockname()[1])
            if reply is None:  # the connection is never accepted
                return await found(address, 0.1)
            request = asyncio.create_task(found(address))
            loop = asyncio.get_running_loop()
            peer, _ = await loop.sock_accept(listening)
            listening.close()  # a second connection is refused
            with peer:
                await loop.sock_sendall(peer, reply)
            return await request

    (finding,) = asyncio.run(scenario())

    assert (finding.grade, "no answer (" in finding.text) == (Severity.WARNING, True)


def test_redirect_of_another_program_is_not_followed() -> None:
    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            b"HTTP/1.1 302 Found\r\nLocation: http://[::1]:1/\r\nContent-Length: 0\r\n\r\n"
        )
        await writer.drain()
        writer.close()

    async def scenario() -> list[Finding]:
        async with await asyncio.start_server(redirect, "127.0.0.1", 0) as server:
            return await found(ListenAddress("127.0.0.1", server.sockets[0].getsockname()[1]))

    (finding,) = asyncio.run(scenario())

    assert "answers 302, so it is another program's" in finding.text


@pytest.mark.parametrize("host", ["::", "::1%nowhere", "-é"])
def test_address_that_cannot_be_reached_is_reported_as_no_answer(host: str) -> None:
    (finding,) = asyncio.run(found(ListenAddress(host, 1)))

    assert (finding.grade, "no answer (" in finding.text) == (Severity.WARNING, True)
    assert finding.text.startswith("[::1]:1") is (host == "::")


# --------------------------------------------------------------------------- the command


class Ready(BaseHTTPRequestHandler):
    """Answers as a shim that is ready."""

    def do_GET(self) -> None:
        """Answer any path."""
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"ok\n")


@contextmanager
def ready_shim() -> Iterator[str]:
    """Serve a ready shim in a thread; yield its address."""
    with HTTPServer(("127.0.0.1", 0), Ready) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_shim_registered_below_another_directory_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    directories = (
        f"--kubelet-root-dir={tmp_path}",
        f"--state-dir={tmp_path}",
        f"--run-dir={tmp_path}",
    )

    with ready_shim() as address:
        main(["doctor", "--output=json", f"--bind-address={address}", *directories])

    findings = {
        finding["subject"]: finding for finding in json.loads(capsys.readouterr().out)["findings"]
    }
    assert findings["shim"]["grade"] == Severity.OK
    assert findings["kubelet"]["grade"] == Severity.WARNING
    assert f"{tmp_path} is not its --kubelet-root-dir" in findings["kubelet"]["text"]
