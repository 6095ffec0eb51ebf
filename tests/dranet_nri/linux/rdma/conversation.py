"""Recorded conversations with a kernel, replayed in tests."""

import socket
from pathlib import Path
from typing import cast

from dranet_nri.linux.netlink.socket import NetlinkSocket
from dranet_nri.linux.rdma.socket import RdmaSocket

GOLDEN = Path(__file__).parents[3] / "golden" / "rdma"
TARGET_FD = 100  # a network namespace, while recording
NO_NAMESPACE_FD = 101  # /dev/null
CLOSED_FD = 102


class Recorder:
    """A socket that records the traffic of another one."""

    def __init__(self, sock: socket.socket) -> None:
        """Take the real one over."""
        self._socket = sock
        self.lines: list[str] = []

    def send(self, data: bytes) -> int:
        """Send a request and write it down."""
        self.lines.append(f"> {data.hex()}")
        return self._socket.send(data)

    def recv_into(self, buffer: bytearray, length: int, flags: int) -> int:
        """Return how long the next answer is."""
        return self._socket.recv_into(buffer, length, flags)

    def recv(self, length: int) -> bytes:
        """Receive an answer and write it down."""
        data = self._socket.recv(length)
        self.lines.append(f"< {data.hex()}")
        return data

    def session(self) -> RdmaSocket:
        """Return a session that is recorded."""
        return RdmaSocket(NetlinkSocket(cast("socket.socket", self)))

    def close(self) -> None:
        """Close the real one."""
        self._socket.close()


class Replay:
    """A kernel that replays one conversation."""

    def __init__(self, lines: list[str]) -> None:
        """Take the lines of a recording."""
        self._lines = lines
        self._next = 0

    def send(self, data: bytes) -> int:
        """Take a request, which must be the recorded one."""
        assert f"> {data.hex()}" == self._line(), "not the request that was recorded"
        return len(data)

    def recv_into(self, buffer: bytearray, length: int, flags: int) -> int:
        """Return how long the next answer is."""
        return len(self._answer())

    def recv(self, length: int) -> bytes:
        """Return the next answer."""
        data = self._answer()
        self._next += 1
        return data[:length]

    def _answer(self) -> bytes:
        assert self._next < len(self._lines), "the recording ends here"
        mark, _, data = self._lines[self._next].partition(" ")
        assert mark == "<", "nothing was answered here"
        return bytes.fromhex(data)

    def _line(self) -> str:
        assert self._next < len(self._lines), "the recording ends here"
        self._next += 1
        return self._lines[self._next - 1]


def recording(name: str) -> list[str]:
    """Return the lines of a recording, without the note at its top."""
    lines = (GOLDEN / f"{name}.txt").read_text().splitlines()
    return [line for line in lines if not line.startswith("#")]


def replayed(name: str) -> RdmaSocket:
    """Return a session with a kernel that replays a recording."""
    return RdmaSocket(NetlinkSocket(cast("socket.socket", Replay(recording(name)))))


def replayed_lines(lines: list[str]) -> RdmaSocket:
    """Return a session with a kernel that replays these lines."""
    return RdmaSocket(NetlinkSocket(cast("socket.socket", Replay(lines))))


def answers(name: str) -> list[bytes]:
    """Return the answers of the kernel in a recording, one per datagram."""
    return [bytes.fromhex(line[2:]) for line in recording(name) if line.startswith("< ")]
