"""Record of the conversations with the kernel's RDMA netlink.

    hack/box/run-machine forky --io DIR -- python3 -m tests.dranet_nri.linux.rdma.record /io

The stock soft-RoCE driver serves. What comes out replaces tests/golden/rdma, once it was read.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.multicast import NETLINK_ADD_MEMBERSHIP
from dranet_nri.linux.netlink.socket import (
    BUFFER_LEN,
    SOL_NETLINK,
    enable_strict_checks,
    open_socket,
)
from dranet_nri.linux.rdma.codec import GROUP_NOTIFY
from dranet_nri.linux.rdma.socket import NETLINK_RDMA, RdmaSocket
from tests.dranet_nri.linux.rdma.conversation import NO_NAMESPACE_FD, TARGET_FD, Recorder
from tests.dranet_nri.linux.rdma.scenarios import (
    BESIDE_A_NAMESPACE,
    EXCLUSIVE,
    SHARED,
    WITHOUT_POWER,
)

NOBODY_UID = 65534
_SETTLE_S = "--timeout=20"


def main(folder: Path) -> None:
    """Record everything into the folder."""
    for module in ("rdma_rxe", "ib_uverbs", "ib_umad", "rdma_ucm"):
        _run("modprobe", module)
    _run("ip", "link", "set", "ens1", "up")
    _run("ip", "link", "add", "wire0", "type", "dummy")
    with Path("/proc/self/ns/net").open() as target, Path("/dev/null").open() as nothing:
        os.dup2(target.fileno(), TARGET_FD)
        os.dup2(nothing.fileno(), NO_NAMESPACE_FD)
        _record_events(folder)
        _record(folder, SHARED)
        _record(folder, EXCLUSIVE)
        _run("ip", "netns", "add", "beside")
        _record(folder, BESIDE_A_NAMESPACE)
        os.seteuid(NOBODY_UID)
        _record(folder, WITHOUT_POWER)


def _record_events(folder: Path) -> None:
    """Add rxe0 and rxe1, and add, rename and remove a third device."""
    sock = open_socket(NETLINK_RDMA)
    sock.bind((0, 0))
    sock.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, GROUP_NOTIFY)
    sock.settimeout(0)
    _run("rdma", "link", "add", "rxe0", "type", "rxe", "netdev", "ens1")
    _run("rdma", "link", "add", "rxe1", "type", "rxe", "netdev", "wire0")
    _run("ip", "link", "add", "wire1", "type", "dummy")
    _run("rdma", "link", "add", "rxe2", "type", "rxe", "netdev", "wire1")
    _run("rdma", "dev", "set", "rxe2", "name", "nic2")
    _run("ip", "link", "set", "wire1", "name", "wire2")
    _run("rdma", "link", "del", "nic2")
    _run("udevadm", "settle", _SETTLE_S)
    lines = []
    with suppress(BlockingIOError):
        while True:
            lines.append(f"< {sock.recv(BUFFER_LEN).hex()}")
    sock.close()
    _write(folder, "events", lines)


def _record(folder: Path, scenarios: Mapping[str, Callable[[RdmaSocket], object]]) -> None:
    for name, request in scenarios.items():
        sock = open_socket(NETLINK_RDMA)
        enable_strict_checks(sock)
        recorder = Recorder(sock)
        with suppress(KernelError):
            request(recorder.session())
        recorder.close()
        _write(folder, name, recorder.lines)


def _write(folder: Path, name: str, lines: list[str]) -> None:
    note = f"# Linux {os.uname().release}, {os.uname().machine}, soft-RoCE"
    text = "\n".join([note, *lines]) + "\n"
    # Written by a privileged parent: the last scenarios run without privileges.
    descriptor = os.open(folder / f"{name}.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(descriptor, text.encode())
    os.close(descriptor)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
