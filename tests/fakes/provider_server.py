"""A metadata server or webhook on the loopback or a Unix socket, which records requests."""

import json
import socketserver
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: a status, text or a JSON document, and where a redirection leads."""

    body: Any = ""
    status: int = 200
    location: str = ""

    def encoded(self) -> bytes:
        """Return the body's bytes."""
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()


@dataclass(frozen=True, slots=True)
class Received:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


@dataclass
class Script:
    """Answers and requests of one server.

    Attributes:
        replies: "METHOD /path?query" → answer; what is not there is answered 404.
        needs: headers without which the answer is 401, by the path that needs them.
        received: requests, in order.
        stalled: while it is set, no request is answered.
        dripping: while it is set, an answer comes byte by byte and has no end.
    """

    replies: dict[str, Reply] = field(default_factory=dict)
    needs: dict[str, tuple[str, str]] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    stalled: threading.Event = field(default_factory=threading.Event)
    dripping: threading.Event = field(default_factory=threading.Event)
    end: threading.Event = field(default_factory=threading.Event)

    def paths(self) -> list[str]:
        """Return the paths that were requested."""
        return [received.path for received in self.received]

    def bodies(self, path: str) -> list[Any]:
        """Return what was sent to a path."""
        return [received.body for received in self.received if received.path == path]

    def answer(self, received: Received) -> Reply:
        """Return the answer to a request."""
        self.received.append(received)
        name, value = self.needs.get(received.path, ("", ""))
        if name and received.headers.get(name.lower()) != value:
            return Reply("who are you?", 401)
        return self.replies.get(f"{received.method} {received.path}", Reply("not found", 404))


class _Tcp(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


class _Unix(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


@contextmanager
def served(script: Script, socket: Path | None = None) -> Iterator[str]:
    """Serve on a free port of the loopback, or on a socket; yield the URL."""
    handler = _handler(script)
    with _Unix(str(socket), handler) if socket else _Tcp(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield (
                f"unix://{socket}"
                if socket
                else f"http://127.0.0.1:{server.socket.getsockname()[1]}"
            )
        finally:
            script.end.set()
            server.shutdown()
            thread.join()


def _handler(script: Script) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def address_string(self) -> str:
            return ""

        def log_message(self, *_: object) -> None:
            """Log nothing."""

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            raw = self.rfile.read(length)
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = json.loads(raw) if raw else None
            reply = script.answer(Received(self.command, self.path, headers, body))
            if script.stalled.is_set():
                script.end.wait()
                self.close_connection = True
                return
            self.send_response(reply.status)
            if reply.location:
                self.send_header("Location", reply.location)
            if script.dripping.is_set():
                self._drip()
                return
            self.send_header("Content-Length", str(len(reply.encoded())))
            self.end_headers()
            self.wfile.write(reply.encoded())

        def _drip(self) -> None:
            self.close_connection = True
            self.end_headers()
            with suppress(OSError):
                while not script.end.wait(0.02):
                    self.wfile.write(b" ")

        do_GET = do_POST = do_PUT = _serve  # noqa: N815 - names of the standard library

    return Handler
