"""Between a control plane on the loopback and a node in namespaces of its own, every connection is
passed on here, as the user-mode network of a virtual machine does it.

A socket belongs to the namespace that it was made in. So one process can listen at the node's
gateway, and connect from there.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from dranet_nri.kernel.netns import run_inside
from tests.system.cluster.api import HOST
from tests.system.cluster.gateway import ADDRESS, GATEWAY, SERVICE

SERVICE_PORT: Final = 443
DEADLINE_S: Final = 60.0  # of a connection to the node
CHUNK: Final = 1 << 16
HEAD_BYTES: Final = 1 << 12
BACKLOG: Final = 64

Opener = Callable[[socket.socket], socket.socket]


class Uplink:
    """The wire of one node. Made before the node is.

    Args:
        api_port: The API server's, on the loopback; the node finds it at the same one of its
            gateway, and where pods expect it.
        hello: A Unix socket to be, on which the node hands over the namespace of its gateway.
        nodes: Another, the proxy through which the API server reaches kubelets.
    """

    def __init__(self, api_port: int, hello: Path, nodes: Path) -> None:
        self._api_port = api_port
        self._paths = (hello, nodes)
        self._hello = _listening(hello)
        self._proxy = _listening(nodes)
        self._gateway = -1
        self._listeners = [self._proxy]

    def is_asked_for(self) -> bool:
        """Tell whether a node is there that wants a wire."""
        return bool(select.select([self._hello], [], [], 0)[0])

    def open(self) -> None:
        """Take the node's namespace, then pass on what comes."""
        node, _ = self._hello.accept()
        with node:
            _, (self._gateway,), _, _ = socket.recv_fds(node, 16, 1)
            for address in ((GATEWAY, self._api_port), (SERVICE, SERVICE_PORT)):
                listener = run_inside(self._gateway, socket.socket)
                listener.bind(address)
                listener.listen(BACKLOG)
                self._listeners.append(listener)
                _passing_on(listener, self._to_api)
            _passing_on(self._proxy, self._to_kubelet)
            node.send(b"!")

    def close(self) -> None:
        """Take the wire away."""
        for listener in (self._hello, *self._listeners):
            # Closing alone would leave the thread in accept.
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for path in self._paths:
            path.unlink()
        if self._gateway >= 0:
            os.close(self._gateway)
            self._gateway = -1

    def connect(self, port: int, deadline_s: float = DEADLINE_S) -> socket.socket:
        """Return a connection to this port of the node.

        Raises:
            OSError: The node isn't there, or refuses.
        """
        if self._gateway < 0:
            raise ConnectionRefusedError("the node has no uplink yet")
        connection = run_inside(self._gateway, socket.socket)
        connection.settimeout(deadline_s)
        try:
            connection.connect((ADDRESS, port))
        except BaseException:
            connection.close()
            raise
        return connection

    def _to_api(self, _client: socket.socket) -> socket.socket:
        return socket.create_connection((HOST, self._api_port), DEADLINE_S)

    def _to_kubelet(self, client: socket.socket) -> socket.socket:
        """Do what `CONNECT ADDRESS:PORT` says. The address is the node's, there is no other."""
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            more = client.recv(1)  # what follows the head is for the kubelet
            if not more or len(head) > HEAD_BYTES:
                raise ConnectionError(f"not a request for a proxy: {head!r}")
            head += more
        target = head.split()[1].decode()
        kubelet = self.connect(int(target.rpartition(":")[2]))
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        return kubelet


def _listening(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(BACKLOG)
    return listener


def _passing_on(listener: socket.socket, opener: Opener) -> None:
    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # closed
            _in_background(partial(_join, client, opener))

    _in_background(accept)


def _join(client: socket.socket, opener: Opener) -> None:
    with client:
        try:
            server = opener(client)
        except (OSError, IndexError, ValueError):
            return  # which the client sees
        with server:
            back = _in_background(partial(_copy, server, client))
            _copy(client, server)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    """Pass on what comes until either side ends; then end the other."""
    source.settimeout(None)
    with suppress(OSError):
        while chunk := source.recv(CHUNK):
            target.sendall(chunk)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _in_background(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread
