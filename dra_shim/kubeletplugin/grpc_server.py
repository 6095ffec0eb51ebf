"""gRPC server on a Unix socket that may be removed or replaced.

Rules:
1. A server never removes a socket that is not its own. gRPC unlinks by name when a server ends,
   also the socket of a successor; so a name that may pass to a successor is created by a rename,
   and gRPC has only a temporary name of the socket.
2. A socket that is renamed replaces any file of that name: a client that connects finds a server at
   every moment.
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

_DRAFT: Final = ".dra-"


class GrpcServer:
    """One server on one socket."""

    def __init__(self, path: Path, server: grpc.aio.Server) -> None:
        """See `opened`, which makes one."""
        self.path = path
        self._server = server
        self._identity = (-1, -1, -1)

    @classmethod
    async def opened(
        cls, path: Path, handlers: Sequence[grpc.GenericRpcHandler], *, follows: bool
    ) -> Self:
        """Return a server at work on a socket of that name, whatever had the name before.

        Args:
            path: of the socket.
            handlers: of the services.
            follows: another server of the shim may still have the name, and end later. Not where a
                kubelet watches every new name: a draft's makes it log errors.

        Raises:
            SocketError: the directory is not there, or takes no socket.
        """
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(handlers)
        listener = cls(path, server)
        # As long as the shortest name, "dra.sock", so that no path becomes too long by it.
        bound = path.with_name(_DRAFT + secrets.token_hex(2)[:3]) if follows else path
        try:
            for stale in path.parent.glob(f"{_DRAFT}???") if follows else (path,):
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

    def is_there(self) -> bool:
        """Whether the socket still has its name."""
        try:
            return _identity(self.path) == self._identity
        except OSError:
            return False

    def remove(self) -> None:
        """Remove the socket's name, if it is this server's; connections stay open."""
        if self.is_there():
            with suppress(OSError):  # the server ends all the same
                self.path.unlink()

    async def close(self, grace_s: float) -> None:
        """Remove the socket, take no more calls, and end those that last longer than grace_s."""
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
    """Return the identity of a file, which a later file with the same inode does not have."""
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_mtime_ns
