"""Start of containerd and the plugin on a node, this one or a peer.

On the node, `python3 -m tests.box.started ADDRESS:PORT` starts both, says their process ids and
leaves them running. containerd listens there, so that `Cri` and `Container` work from afar.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from tests.box.containerd import Containerd
from tests.box.cri import Cri
from tests.box.plugin import Plugin
from tests.box.runtime import Options
from tests.box.target import ExecTarget, checked
from tests.box.waiting import wait_until


@contextmanager
def started(node: ExecTarget, tcp: str) -> Iterator[Cri]:
    """Have a node run containerd and the plugin; return a client of that containerd.

    In the end the pods are removed, and neither program runs any more.

    Args:
        node: A machine.
        tcp: An address of it, reachable from here, and a free port.
    """
    pids = checked(node, "python3", "-m", "tests.box.started", tcp).split()
    try:
        with Cri(tcp) as client:
            yield client
            client.remove_all()
    finally:
        for pid in pids:
            checked(node, "sh", "-c", 'kill "$0"', pid)
            wait_until(f"process {pid} to end", partial(_ended, node, pid))


def _ended(node: ExecTarget, pid: str) -> bool:
    return node.run("test", "-e", f"/proc/{pid}").exit_code == 1


def main() -> None:
    """Start what a node runs."""
    runtime, plugin = Containerd(), Plugin()
    runtime.start(Options(tcp=sys.argv[1]))
    plugin.start()
    sys.stdout.write(f"{plugin.pid} {runtime.pid}\n")


if __name__ == "__main__":
    main()
