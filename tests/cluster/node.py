"""A node of the test cluster: a real kubelet and a real containerd in private namespaces.

Real: both programs, the kernel's network namespaces, runc, CNI, NRI, CDI, and the connections to
and from the API server. Not real: NICs are ends of virtual wires; the kernel is the host's, so what
a kubelet does to it as a whole (sysctls, OOM messages, oom_score_adj) is kept from it, see
tests/box/kubelet.py; the one service address that leads anywhere is the API server's.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from tests.box import lines
from tests.box.cri import ExecResult
from tests.box.place import checked
from tests.box.waiting import wait_until
from tests.cluster.api import ApiError, Object
from tests.cluster.control_plane import ControlPlane
from tests.cluster.inside import GATEWAY, PORT
from tests.cluster.program import Program, tail
from tests.cluster.uplink import Uplink
from tests.cluster.workload import NODES

RUN_HOST: Final = Path(__file__).parents[2] / "hack/box/run-host"
LIFE_S: Final = 3600
ANSWER_S: Final = 120.0  # the longest that a part takes to start


class NodeError(Exception):
    """The node could not do as told."""


@dataclass(frozen=True, slots=True)
class Part:
    """A program of the node: containerd, kubelet, plugin or shim."""

    node: Node
    name: str

    def start(self) -> None:
        """Start it, and wait until it serves."""
        self.node.tell(self.name, "start")

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self.node.tell(self.name, "stop")

    def kill(self) -> None:
        """End it without warning."""
        self.node.tell(self.name, "kill")

    def restart(self) -> None:
        """Stop it and start it."""
        self.stop()
        self.start()


class Node:
    """The node of a control plane, for as long as a `with` block lasts. Its NICs are nic0 to nic7.

    Args:
        cluster: A running control plane.
        programs: Where the kubelet is.
        directory: What node and tests share, logs too; it exists.
    """

    name: Final = "box"

    def __init__(self, cluster: ControlPlane, programs: Path, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        shutil.copy(programs / "kubelet", directory)
        shutil.copy(cluster.authority, directory / "ca.crt")
        user = f"system:node:{self.name}"
        kubeconfig = cluster.kubeconfig_of(user, "system:nodes", address=GATEWAY)
        shutil.copy(kubeconfig, directory / "node.kubeconfig")
        shim = cluster.kubeconfig_of("dra-shim", "system:masters", address=GATEWAY)
        shutil.copy(shim, directory / "shim.kubeconfig")
        self._uplink = Uplink(cluster.api_port, directory / "uplink.sock", cluster.nodes)
        inside = ("python3", "-m", "tests.cluster.inside")
        box = (RUN_HOST, "forky", "--limit", str(LIFE_S), "--io", directory, "--", *inside)
        self._box = Program(directory / "box.log", box)
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
        (self._directory / "kubelet").unlink()  # logs are kept, not what is 90 MB

    def run(self, *command: str) -> ExecResult:
        """Run a command on the node; it is killed after a minute, and ends with 124 then."""
        return ExecResult(*self.tell("node", "run", *command))

    def tell(self, part: str, verb: str, *arguments: str) -> Any:
        """Have the node do something; return what came of it (see tests/cluster/inside.py).

        Raises:
            NodeError: It could not.
        """
        with self._uplink.connect(PORT) as connection:
            connection.settimeout(ANSWER_S)
            result, error = lines.ask(connection, [part, verb, *arguments])
        if error is not None:
            raise NodeError(error)
        return result

    def load(self, image: Path) -> None:
        """Give the runtime an image, an archive that `ctr images import` takes.

        Raises:
            RuntimeError: It is not taken.
        """
        copy = self._directory / image.name
        shutil.copy(image, copy)
        checked(self, "ctr", "--namespace=k8s.io", "images", "import", f"/io/{image.name}")
        copy.unlink()

    def state(self) -> dict[str, object]:
        """Return what pods must not change: links, addresses, routes and rules of the node."""
        state: dict[str, object] = self.tell("node", "state")
        return state

    def log(self, name: str) -> str:
        """Return all that `kubelet`, `containerd`, `dranet-nri` or `dra-shim` said."""
        log = self._directory / f"{name}.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def is_ready(self) -> bool:
        """Tell whether the API server has it that the node is ready for pods."""
        try:
            node = self._cluster.api().get(f"{NODES}/{self.name}")
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        conditions: list[Object] = node["status"].get("conditions", [])
        ready = {"type": "Ready", "status": "True"}
        return "taints" not in node["spec"] and any(
            ready.items() <= condition.items() for condition in conditions
        )

    def tails(self) -> Generator[tuple[str, str]]:
        """Return the end of each log: name and text."""
        for log in sorted(self._directory.glob("*.log")):
            yield log.name, tail(log)

    def _start(self) -> None:
        self._box.start(self._uplink.is_asked_for)
        self._uplink.open()
        wait_until("the node to do as told", self._answers)
        self.containerd.start()
        self.kubelet.start()
        wait_until("the node to be ready", self.is_ready, 60)

    def _answers(self) -> bool:
        try:
            return self.run("true").exit_code == 0
        except OSError:
            return False
