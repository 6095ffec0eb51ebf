"""Targets of commands: the node, one of its network namespaces, or a container."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import Final, Protocol

from tests.box.cri import Cri, ExecResult, Mount
from tests.box.waiting import SLOWDOWN

# Binds the node's programs into a container, whose own image has busybox and nothing else.
PROGRAMS: Final = tuple(
    Mount(source, target)
    for source, target in (
        ("/usr", "/usr"),
        ("/usr/lib", "/lib"),
        ("/usr/lib64", "/lib64"),
        ("/etc/libibverbs.d", "/etc/libibverbs.d"),
    )
)
DEADLINE_S: Final = int(60 * SLOWDOWN)
PATH: Final = "/usr/sbin:/usr/bin:/bin"


class ExecTarget(Protocol):
    """A target that runs commands."""

    def run(self, *command: str) -> ExecResult:
        """Run a command to its end; a non-zero exit is a result, not an error."""


@dataclass(frozen=True, slots=True)
class Node:
    """The node itself, in its own network namespace or in the one called netns.

    A named namespace is one of /run/netns, where the runtime keeps those of pods as well. Commands
    see the sysfs of that namespace.
    """

    netns: str = ""

    def run(self, *command: str) -> ExecResult:
        """Run a command; it is killed after DEADLINE_S, and ends with 124 then."""
        where = ("ip", "netns", "exec", self.netns) if self.netns else ()
        limited = ("timeout", "--kill-after=5", str(DEADLINE_S), *where, *command)
        done = subprocess.run(limited, capture_output=True, text=True, check=False)
        return ExecResult(done.returncode, done.stdout, done.stderr)


NODE: Final = Node()


@dataclass(frozen=True, slots=True)
class Container:
    """A running container. For programs of the node, mount PROGRAMS into it."""

    cri: Cri = field(repr=False)
    container_id: str

    def run(self, *command: str) -> ExecResult:
        """Run a command; the runtime ends it after a minute.

        Raises:
            CriError: The command was not found, or ran out of time.
        """
        return self.cri.exec(self.container_id, "/usr/bin/env", f"PATH={PATH}", *command)


def checked(target: ExecTarget, *command: str) -> str:
    """Run a command that must succeed; return what it printed.

    Raises:
        RuntimeError: It failed; the message has its output.
    """
    done = target.run(*command)
    if done.exit_code:
        output = f"{done.stdout}{done.stderr}".strip()
        raise RuntimeError(f"{' '.join(command)}: exit status {done.exit_code}: {output}")
    return done.stdout
