"""The second machine of `run-vm --peer`: a place to run commands, and what runs them there.

The uplinks of both machines are one network. On the peer, `python3 -m tests.box.peer` takes one
command a connection, so commands may run side by side: one JSON object on one line each way.
"""

from __future__ import annotations

import json
import os
import socket
import socketserver
from dataclasses import dataclass, field
from typing import Final, cast

from tests.box.cri import ExecResult
from tests.box.place import DEADLINE_S, NODE
from tests.box.waiting import wait_until

PORT: Final = 7000


@dataclass(frozen=True, slots=True)
class Peer:
    """The other machine.

    Attributes:
        uplink: Address of its uplink, on which it listens.
    """

    uplink: str = field(default_factory=lambda: os.environ["BOX_PEER"])

    def wait(self) -> None:
        """Return once it has booted and takes commands."""
        wait_until("the peer to take commands", self._listens, 60)

    def run(self, *command: str) -> ExecResult:
        """Run a command as root in /repo, with the environment of tests there.

        It is killed after a minute, and ends with 124 then.

        Raises:
            ConnectionError: The peer is not there.
        """
        with socket.create_connection((self.uplink, PORT), DEADLINE_S + 30) as connection:
            connection.sendall(json.dumps(command).encode() + b"\n")
            with connection.makefile("rb") as replies:
                line = replies.readline()
        if not line:
            raise ConnectionResetError(f"the peer ended without an answer to {command}")
        exit_code, stdout, stderr = cast(tuple[int, str, str], json.loads(line))
        return ExecResult(exit_code, stdout, stderr)

    def _listens(self) -> bool:
        try:
            return self.run("true").exit_code == 0
        except OSError:
            return False


class _Command(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        command = cast(list[str], json.loads(self.rfile.readline()))
        result = NODE.run(*command)
        answer = (result.exit_code, result.stdout, result.stderr)
        self.wfile.write(json.dumps(answer).encode() + b"\n")


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True


def main() -> None:
    """Serve until the machine is switched off."""
    with _Server((os.environ["BOX_PEER"], PORT), _Command) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
