"""Second machine of `run-machine --peer`: runs commands of the tests.

The uplinks of both machines are one network. On the peer, `python3 -m tests.box.peer` takes one
command a connection, so commands may run side by side: one JSON object on one line each way.
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from typing import Final

from tests.box import lines
from tests.box.cri import ExecResult
from tests.box.target import DEADLINE_S, NODE
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
        wait_until("the peer to take commands", self._listens)

    def run(self, *command: str) -> ExecResult:
        """Run a command as root in /repo, with the environment of tests there.

        It is killed after a minute, and ends with 124 then.

        Raises:
            ConnectionError: The peer is not there.
        """
        with socket.create_connection((self.uplink, PORT), DEADLINE_S + 30) as connection:
            return ExecResult(*lines.request(connection, command))

    def _listens(self) -> bool:
        try:
            return self.run("true").exit_code == 0
        except OSError:
            return False


def _answer(command: list[str]) -> tuple[int, str, str]:
    result = NODE.run(*command)
    return result.exit_code, result.stdout, result.stderr


def main() -> None:
    """Serve until the machine is switched off."""
    lines.serve((os.environ["BOX_PEER"], PORT), _answer)


if __name__ == "__main__":
    main()
