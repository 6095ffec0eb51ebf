"""A node of the test cluster: a real kubelet and a real containerd, in namespaces or in a machine.

Real: both programs, the kernel's network namespaces, runc, CNI, NRI, CDI, and the connections to
and from the API server. Not real, in namespaces: NICs are ends of virtual wires; the kernel is the
host's, so what a kubelet does to it as a whole (sysctls, OOM messages, oom_score_adj) is kept from
it, see tests/box/kubelet.py. Of both, the one service address that leads anywhere is the API
server's.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from tests.box import lines
from tests.box.cri import ExecResult
from tests.box.waiting import SLOWDOWN, wait_until
from tests.system.cluster.api import ApiError, Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.gateway import GATEWAY, TAP
from tests.system.cluster.inside import PORT
from tests.system.cluster.program import Program, tail
from tests.system.cluster.uplink import Uplink
from tests.system.cluster.workload import NODES

BOX: Final = Path(__file__).parents[3] / "hack/box"
HELLO: Final = "uplink.sock"
DISK: Final = "disk"  # of a machine
INSIDE: Final = ("--limit", "5400", "--", "python3", "-m", "tests.system.cluster.inside")
ANSWER_S: Final = 120.0 * SLOWDOWN  # the longest that a part takes to start
BOOT_S: Final = 5.0  # a node that is reset between question and answer never says that it was
Maker = Callable[[Path], tuple[str | Path, ...]]


class NodeError(Exception):
    """The node could not do as told."""


@dataclass(frozen=True, slots=True)
class Part:
    """A program of the node: containerd, kubelet, plugin or shim."""

    node: Node
    name: str

    def start(self) -> None:
        """Start it, and wait until it serves."""
        self.node.call(self.name, "start")

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self.node.call(self.name, "stop")

    def kill(self) -> None:
        """End it without warning."""
        self.node.call(self.name, "kill")

    def restart(self) -> None:
        """Stop it and start it."""
        self.stop()
        self.start()


def namespaces(directory: Path) -> tuple[str | Path, ...]:
    """Return what makes a node in namespaces of this machine. Its NICs are nic0 to nic7."""
    return (BOX / "run-host", "forky", "--io", directory, *INSIDE)


def machine(directory: Path) -> tuple[str | Path, ...]:
    """Return what makes a node in a virtual machine, with eight NICs and a function of each."""
    gateway = (
        "unshare",
        "--net",
        sys.executable,
        "-m",
        "tests.system.cluster.gateway",
        directory / HELLO,
    )
    uplink = ("--tap", TAP, "--disk", directory / DISK, "--memory", "4096")
    return (*gateway, BOX / "run-machine", "forky", *uplink, "--io", directory, *INSIDE)


class Node:
    """The node of a control plane, for as long as a `with` block lasts.

    Args:
        cluster: A running control plane.
        programs: Where the kubelet is.
        directory: What node and tests share, logs too; it exists.
        maker: Says what makes it; it is given the directory.
    """

    name: Final = "box"

    def __init__(
        self, cluster: ControlPlane, programs: Path, directory: Path, maker: Maker = namespaces
    ) -> None:
        self._cluster = cluster
        self._directory = directory
        shutil.copy(programs / "kubelet", directory)
        shutil.copy(cluster.authority, directory / "ca.crt")
        user = f"system:node:{self.name}"
        kubeconfig = cluster.kubeconfig_of(user, "system:nodes", address=GATEWAY)
        shutil.copy(kubeconfig, directory / "node.kubeconfig")
        shim = cluster.kubeconfig_of("dra-shim", "system:masters", address=GATEWAY)
        shutil.copy(shim, directory / "shim.kubeconfig")
        self._uplink = Uplink(cluster.api_port, directory / HELLO, cluster.nodes)
        self._box = Program(directory / "box.log", maker(directory))
        self.containerd = Part(self, "containerd")
        self.kubelet = Part(self, "kubelet")
        self.plugin = Part(self, "plugin")
        self.shim = Part(self, "shim")

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self._box.stop()
        self._uplink.close()
        with suppress(ApiError):  # it need not have got so far
            self._cluster.api().delete(f"{NODES}/{self.name}")
        for name in ("kubelet", DISK):  # logs are kept, not what is large
            (self._directory / name).unlink(missing_ok=True)

    def run(self, *command: str) -> ExecResult:
        """Run a command on the node; it is killed after a minute, and ends with 124 then."""
        return ExecResult(*self.call("node", "run", *command))

    def call(self, part: str, verb: str, *arguments: str) -> Any:
        """Call a function on the node; return its result (see tests/system/cluster/inside.py).

        Raises:
            NodeError: It could not.
        """
        return self._answer([part, verb, *arguments], ANSWER_S)

    def start(self) -> None:
        """Start the parts that every node has, and wait until it is ready for pods."""
        self.containerd.start()
        self.kubelet.start()
        wait_until("the node to be ready", self.is_ready)

    def reset(self) -> None:
        """Reset the machine: all but its disk begins anew, and the node's parts are stopped."""
        before = str(self.call("node", "boot"))
        self.call("node", "reset")
        wait_until("the node to do as told", lambda: self._boot() not in ("", before))

    def load(self, image: Path) -> None:
        """Give the runtime an image, an archive that `ctr images import` takes.

        Raises:
            NodeError: It is not taken.
        """
        path = self.give(image)
        self.call("node", "load", path)
        (self._directory / image.name).unlink()

    def give(self, file: Path) -> str:
        """Copy a file to the node; return its path there."""
        shutil.copy(file, self._directory)
        return f"/io/{file.name}"

    def state(self) -> dict[str, object]:
        """Return what pods must not change: links, addresses, routes and rules of the node."""
        state: dict[str, object] = self.call("node", "state")
        return state

    def settle(self) -> None:
        """Return once the state is what it stays if nobody changes it."""
        self.call("node", "settle")

    def log(self, name: str) -> str:
        """Return all that `kubelet`, `containerd`, `dranet-nri` or `dra-shim` said."""
        log = self._directory / f"{name}.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def is_ready(self) -> bool:
        """Tell whether the API server has it that the node is ready for pods, in this boot."""
        try:
            node = self._cluster.api().get(f"{NODES}/{self.name}")
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        conditions: list[Object] = node["status"].get("conditions", [])
        ready = {"type": "Ready", "status": "True"}
        return (
            "taints" not in node["spec"]
            and node["status"].get("nodeInfo", {}).get("bootID") == self._boot()
            and any(ready.items() <= condition.items() for condition in conditions)
        )

    def tails(self) -> Generator[tuple[str, str]]:
        """Return the end of each log: name and text."""
        for log in sorted(self._directory.glob("*.log")):
            yield log.name, tail(log)

    def _start(self) -> None:
        self._box.start(self._uplink.is_asked_for)
        self._uplink.open()
        wait_until("the node to do as told", self._boot)
        self.start()

    def _boot(self) -> str:
        """Return the name of the node's boot, "" while it does not do as told."""
        self._box.check()
        try:
            return str(self._answer(["node", "boot"], BOOT_S))
        except OSError:
            return ""

    def _answer(self, question: list[str], deadline_s: float) -> Any:
        with self._uplink.connect(PORT) as connection:
            connection.settimeout(deadline_s)
            result, error = lines.request(connection, question)
        if error is not None:
            raise NodeError(error)
        return result
