"""Requests and responses over TCP: a line of JSON each way, one per connection."""

from __future__ import annotations

import json
import socket
import socketserver
from collections.abc import Callable
from typing import Any


def ask(connection: socket.socket, question: object) -> Any:
    """Send a question, return the answer; both are what JSON can say.

    Raises:
        ConnectionError: The other side ended without an answer.
    """
    connection.sendall(json.dumps(question).encode() + b"\n")
    with connection.makefile("rb") as replies:
        line = replies.readline()
    if not line:
        raise ConnectionResetError(f"no answer to {question}")
    return json.loads(line)


def serve(address: tuple[str, int], answer: Callable[[Any], object]) -> None:
    """Answer for ever, each question in a thread of its own."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            said = answer(json.loads(self.rfile.readline()))
            self.wfile.write(json.dumps(said).encode() + b"\n")

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(address, Handler) as server:
        server.serve_forever()
