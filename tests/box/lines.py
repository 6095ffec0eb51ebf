"""Requests and responses over TCP: a line of JSON each way, one per connection."""

from __future__ import annotations

import json
import socket
import socketserver
from collections.abc import Callable
from typing import Any


def request(connection: socket.socket, message: object) -> Any:
    """Send a question, return the answer; both are what JSON can say.

    Raises:
        ConnectionError: The other side ended without an answer.
    """
    connection.sendall(json.dumps(message).encode() + b"\n")
    with connection.makefile("rb") as replies:
        line = replies.readline()
    if not line:
        raise ConnectionResetError(f"no answer to {message}")
    return json.loads(line)


def serve(address: tuple[str, int], answer: Callable[[Any], object]) -> None:
    """Answer for ever, each question in a thread of its own."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            response = answer(json.loads(self.rfile.readline()))
            self.wfile.write(json.dumps(response).encode() + b"\n")

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(address, Handler) as server:
        server.serve_forever()
