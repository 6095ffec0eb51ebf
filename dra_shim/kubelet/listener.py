"""A gRPC server on a socket that may be taken from under it.

Rules:
1. A socket gets its name when its server is at work, by a rename that takes the place of whatever
   had the name. Who connects finds a server at every moment, and the kubelet sees a new socket.
2. A server only ever unlinks a socket of its own; gRPC itself would remove its successor's.
"""

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

import grpc

from dra_shim.kubelet.sockets import SocketError

_DRAFT: Final = ".dra-"  # no kubelet looks at names with a dot in front


class Listener:
    """One server on one socket."""

    def __init__(self, path: Path, server: grpc.aio.Server) -> None:
        """See `opened`, which makes one."""
        self.path = path
        self._server = server
        self._identity = (-1, -1)

    @classmethod
    async def opened(cls, path: Path, handlers: Sequence[grpc.GenericRpcHandler]) -> Self:
        """Return a server at work on a socket of that name, whatever had the name before.

        Raises:
            SocketError: the directory is not there, or takes no socket.
        """
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(handlers)
        listener = cls(path, server)
        # As long as the shortest name, "dra.sock", so that no path becomes too long by it.
        draft = path.with_name(_DRAFT + secrets.token_hex(2)[:3])
        try:
            for leftover in path.parent.glob(f"{_DRAFT}???"):
                leftover.unlink(missing_ok=True)
            _bind(server, draft)
            await server.start()
            found = draft.stat()
            draft.replace(path)
        except BaseException as error:
            await server.stop(None)
            if isinstance(error, OSError):
                raise SocketError(f"socket {path}: {error.strerror}") from error
            raise
        listener._identity = (found.st_dev, found.st_ino)
        return listener

    def is_there(self) -> bool:
        """Whether the socket still has its name."""
        try:
            found = self.path.stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    def remove(self) -> None:
        """Take the socket's name away, if it is ours; who is connected stays so."""
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
