"""gRPC server on a Unix socket that can be removed or replaced.

Rules:
1. A server removes only its own socket. gRPC unlinks by name when a server ends, even if the socket
   of that name belongs to a successor. So a name that a successor may take is created by a rename,
   and gRPC uses only the temporary name.
2. A renamed socket replaces any file of that name, so that a client always finds a server.
"""

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

import grpc

from dra_shim.kubeletplugin.sockets import SocketError

_TEMPORARY: Final = ".dra-"


class GrpcServer:
    """One server on one socket."""

    def __init__(self, path: Path, server: grpc.aio.Server) -> None:
        """Use `start` to create a server."""
        self.path = path
        self._server = server
        self._identity = (-1, -1, -1)

    @classmethod
    async def start(
        cls, path: Path, handlers: Sequence[grpc.GenericRpcHandler], *, replaces: bool
    ) -> Self:
        """Return a running server on a socket of this name, in place of any file of this name.

        Args:
            path: path of the socket.
            handlers: handlers of the services.
            replaces: whether another server of the shim may still use this name, and end later. Not
                for a directory that a kubelet watches: it logs errors for temporary names.

        Raises:
            SocketError: the directory does not exist, or cannot contain a socket.
        """
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(handlers)
        listener = cls(path, server)
        # Not longer than the shortest name, "dra.sock", so that the path never becomes too long.
        bound = path.with_name(_TEMPORARY + secrets.token_hex(2)[:3]) if replaces else path
        try:
            for stale in path.parent.glob(f"{_TEMPORARY}???") if replaces else (path,):
                stale.unlink(missing_ok=True)
            _bind(server, bound)
            await server.start()
            identity = _identity(bound)
            bound.replace(path)
        except BaseException as error:
            await server.stop(None)
            if isinstance(error, OSError):
                raise SocketError(f"socket {path}: {error.strerror}") from error
            raise
        listener._identity = identity
        return listener

    def exists(self) -> bool:
        """Return whether the socket still has its name."""
        try:
            return _identity(self.path) == self._identity
        except OSError:
            return False

    def remove(self) -> None:
        """Remove the name of the socket, if it is that of this server; connections stay open."""
        if self.exists():
            with suppress(OSError):  # the server ends in any case
                self.path.unlink()

    async def close(self, grace_s: float) -> None:
        """Remove the socket, stop accepting calls, and cancel calls that exceed grace_s."""
        self.remove()
        await self._server.stop(grace_s)


def _bind(server: grpc.aio.Server, path: Path) -> None:
    if not path.parent.is_dir():
        raise SocketError(
            f"socket {path.parent}/: there is no such directory; is the kubelet's directory right "
            "(--kubelet-root-dir), and mounted into the container at the same path?"
        )
    try:
        server.add_insecure_port(f"unix:{quote(os.fspath(path))}")
    except RuntimeError as error:
        raise SocketError(f"socket {path}: cannot be bound: {error}") from error


def _identity(path: Path) -> tuple[int, int, int]:
    """Return the identity of a file, different from that of a later file with the same inode."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_mtime_ns
