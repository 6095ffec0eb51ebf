"""Soft-RoCE devices: the driver, the kernel's sharing mode, moves, and traffic between two targets.

RDMA devices of hardware can move between network namespaces, the kernel's soft-RoCE can not. The
forky machine has a second build of it that can (hack/box/rxe); all else about it is stock. The
trixie machine has the stock driver only: no test with the marker `every_runtime` asks for
`movable_rdma`.

Typical use, in tests/system/vm. The driver's fixture comes before `cri` and whatever else makes
network namespaces, which are then gone when it ends:

    def test_…(movable_rdma: None, cri: Cri, nics: tuple[Nic, ...]) -> None:
        rdma.add_link("rxe0", nics[0].name)
        …
        writes = rdma.ib_write_bw(server=Endpoint(NODE, "rxe1", "10.101.0.5"),
                                  client=Endpoint(Node("pod"), "rxe0", "10.100.0.5"))
"""

from __future__ import annotations

import ipaddress
import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, Literal

import pytest

from tests.box.cri import ExecResult
from tests.box.target import NODE, ExecTarget, Node, checked
from tests.box.waiting import wait_until

Mode = Literal["shared", "exclusive"]

NEEDED: Final = ("ib_uverbs", "rdma_ucm", "udp_tunnel", "ip6_udp_tunnel")
# Users before what they use.
LOADED: Final = (
    *("rdma_rxe", "rdma_ucm", "rdma_cm", "ib_umad", "ib_uverbs", "ib_cm", "iw_cm"),
    *("ib_uverbs_support", "ib_core", "ip6_udp_tunnel", "udp_tunnel"),
)
_LISTENS: Final = "0A"  # TCP_LISTEN in /proc/net/tcp
_PERFTEST_PORT: Final = 18515
_TIMED_OUT: Final = 124  # exit status of timeout(1)
_RPING_S: Final = 30  # a run takes 0.1 s, or 2 s on a busy machine; the runtime allows 60 s


class Driver(Enum):
    """The two builds of soft-RoCE."""

    MOVABLE = "movable"
    STOCK = "stock"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of RDMA traffic.

    Attributes:
        target: where the program runs.
        device: RDMA device that it uses, visible there.
        address: IP address of that device's netdev.
        reached_at: IP address where the other end finds this one's programs, if not the same.
    """

    target: ExecTarget
    device: str
    address: str
    reached_at: str = ""


@contextmanager
def soft_rdma(driver: Driver, mode: Mode, node: ExecTarget = NODE) -> Iterator[None]:
    """Have the driver loaded and the mode set; afterwards the node has no RDMA at all, as before.

    The node is this one or a peer, here and in the functions below.

    To enter and to leave it, no network namespace may exist beside the node's own: the kernel
    changes the mode at no other time. Those of pods that were removed may take a moment to go.
    """
    load(driver, node)
    try:
        set_netns_mode(mode, node)
        yield
    finally:
        unload(node)


@pytest.fixture
def movable_rdma() -> Iterator[None]:
    """Load soft-RoCE whose devices move; every device belongs to one namespace (exclusive)."""
    with soft_rdma(Driver.MOVABLE, "exclusive"):
        yield


@pytest.fixture
def stock_rdma() -> Iterator[None]:
    """Load the kernel's own soft-RoCE; every namespace sees every device (shared)."""
    with soft_rdma(Driver.STOCK, "shared"):
        yield


def load(driver: Driver, node: ExecTarget = NODE) -> None:
    """Load the driver and the modules that give programs access to RDMA."""
    if "rdma_rxe" in modules(node):
        raise RuntimeError("rdma_rxe is loaded; one build of it at a time: unload() first")
    checked(node, "modprobe", "--all", *NEEDED)
    match driver:
        case Driver.STOCK:
            checked(node, "modprobe", "rdma_rxe")
        case Driver.MOVABLE:
            checked(node, "insmod", os.environ["BOX_RXE"])


def unload(node: ExecTarget = NODE) -> None:
    """Set the mode back, remove every soft-RoCE device with the driver, and all modules of RDMA.

    Raises:
        TimeoutError: A namespace that was left keeps the mode from changing.
        RuntimeError: A module is still in use.
    """
    set_netns_mode("shared", node)
    for module in LOADED:
        if module in modules(node):
            node.run("modprobe", "--remove", module)
    left = modules(node) & set(LOADED)
    if left:
        raise RuntimeError(f"RDMA modules in use after the test: {sorted(left)}")


def modules(node: ExecTarget = NODE) -> set[str]:
    """Return the names of all loaded modules."""
    return {line.split()[0] for line in checked(node, "cat", "/proc/modules").splitlines()}


def set_netns_mode(mode: Mode, node: ExecTarget = NODE) -> None:
    """Set whether namespaces share all RDMA devices or have their own.

    Raises:
        TimeoutError: Other network namespaces exist and stay.
    """
    wait_until(
        f"RDMA to become {mode}, which it does while no other network namespace exists",
        lambda: node.run("rdma", "system", "set", "netns", mode).exit_code == 0,
    )


def netns_mode(node: ExecTarget = NODE) -> str:
    """Return `shared` or `exclusive`."""
    return checked(node, "rdma", "system").split()[1]


def add_link(name: str, netdev: str, node: ExecTarget = NODE) -> None:
    """Make soft-RoCE device `name` over a netdev of the node's own namespace.

    The movable driver puts it where hardware has it in sysfs: PCI-FUNCTION/infiniband/NAME.
    """
    checked(node, "rdma", "link", "add", name, "type", "rxe", "netdev", netdev)


def delete_link(name: str, node: ExecTarget = NODE) -> None:
    """Remove a soft-RoCE device that is in the node's own namespace."""
    checked(node, "rdma", "link", "delete", name)


def links(target: ExecTarget = NODE) -> dict[str, str]:
    """Return the RDMA devices there, each with its netdev, empty if that is not there as well."""
    rows = json.loads(checked(target, "rdma", "-j", "link"))
    return {row["ifname"]: row.get("netdev", "") for row in rows}


def contexts(target: ExecTarget = NODE) -> list[str]:
    """Return the programs that hold an RDMA device open which is there, one for each time."""
    rows = json.loads(checked(target, "rdma", "-j", "resource", "show", "ctx"))
    return [row["comm"] for row in rows]


def move(name: str, netns: str, *, origin: str = "") -> None:
    """Move an RDMA device from namespace origin to a named one, or to the node's own: `1`.

    Raises:
        RuntimeError: The kernel refused; its reason is in the message.
    """
    checked(Node(origin), "rdma", "dev", "set", name, "netns", netns)


def device_files(name: str) -> tuple[str, ...]:
    """Return the device files that a program needs for an RDMA device, rdma_cm's included."""
    for directory in Path("/sys/class/infiniband_verbs").glob("uverbs*"):
        if (directory / "ibdev").read_text().strip() == name:
            return f"/dev/infiniband/{directory.name}", "/dev/infiniband/rdma_cm"
    raise LookupError(f"no uverbs device of {name}")


def ib_write_bw(
    server: Endpoint, client: Endpoint, *, size: int = 4096, iterations: int = 200
) -> int:
    """Write from client to server by RDMA; return how often.

    Raises:
        RuntimeError: A side failed; the message has the output of both.
    """
    # More at once overflows the receiver: an emulated wire holds nobody back.
    window = ("--tx-depth", "4")
    options = ("--size", str(size), "--iters", str(iterations), *window, "--CPU-freq")

    def command(end: Endpoint) -> tuple[str, ...]:
        return "ib_write_bw", "--ib-dev", end.device, "--gid-index", str(gid_index(end)), *options

    output = _traffic(
        (server, command(server)),
        (client, (*command(client), server.reached_at or server.address)),
        ready=lambda: listens(server.target),
    )
    rows = (line.split() for line in output.splitlines())
    return next(int(row[1]) for row in rows if len(row) == 5 and row[0] == str(size))


def rping(server: Endpoint, client: Endpoint, *, count: int = 3) -> None:
    """Connect by rdma_cm and ping by RDMA.

    Raises:
        RuntimeError: A side failed, or the client lacks an answer; the message has both outputs.
    """
    options = ("-a", server.address, "-C", str(count), "-v")
    # The client of rdma-core 65 hangs at its end in 1 of 100 to 300 runs: poll() in its event
    # thread reports DISCONNECTED; then the main thread destroys the cm_id, and the event with it.
    # The event thread waits in rdma_get_cm_event() forever, and the main thread for that thread.
    # All pings are done by then, and all RDMA resources are free: the number of pings decides.
    limited = ("timeout", str(_RPING_S), "stdbuf", "--output=L")
    _traffic(
        (server, ("rping", "-s", *options)),
        (client, (*limited, "rping", "-c", *options)),
        ready=lambda: "LISTEN" in checked(server.target, "rdma", "resource", "show", "cm_id"),
        succeeded=lambda ended: (
            ended.exit_code in {0, _TIMED_OUT} and ended.stdout.count("ping data: ") == count
        ),
    )


def gid_index(end: Endpoint) -> int:
    """Return the index of the address among the device's GIDs, where it is mapped into IPv6.

    Raises:
        LookupError: The device has no such GID, or is not to be seen there.
    """
    gids = f"/sys/class/infiniband/{end.device}/ports/1/gids"
    address = ipaddress.ip_address(end.address)
    mapped = address if address.version == 6 else ipaddress.ip_address(f"::ffff:{address}")
    found = end.target.run("grep", "-rl", mapped.packed.hex(":", 2), gids).stdout.split()
    if not found:
        raise LookupError(f"{end.device} has no GID of {end.address} in {end.target}")
    return min(int(path.rpartition("/")[2]) for path in found)


def _traffic(
    server: tuple[Endpoint, tuple[str, ...]],
    client: tuple[Endpoint, tuple[str, ...]],
    *,
    ready: Callable[[], bool],
    succeeded: Callable[[ExecResult], bool] = lambda ended: ended.exit_code == 0,
) -> str:
    """Run the server's command, once ready the client's; return what the client printed.

    Args:
        server: an end and its command.
        client: the other end and its command.
        ready: whether the server accepts clients.
        succeeded: whether the client did, by its result. The server must end with 0.

    Raises:
        RuntimeError: A side failed; the message has both outputs.
    """
    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(server[0].target.run, *server[1])
        wait_until(f"{server[1][0]} to listen", lambda: serving.done() or ready())
        ended = client[0].target.run(*client[1])
        served = serving.result()
    if not succeeded(ended) or served.exit_code:
        output = "".join(
            f"\n{side} {' '.join(command)}: {result.exit_code}\n{result.stdout}{result.stderr}"
            for side, (_, command), result in (
                ("server", server, served),
                ("client", client, ended),
            )
        )
        raise RuntimeError(f"no RDMA traffic{output}")
    return ended.stdout


def listens(target: ExecTarget, port: int = _PERFTEST_PORT) -> bool:
    """Whether a server, of perftest unless said, waits for its client there."""
    sockets = checked(target, "cat", "/proc/net/tcp", "/proc/net/tcp6").splitlines()
    return any(
        line.split()[1].endswith(f":{port:04X}") and line.split()[3] == _LISTENS for line in sockets
    )
