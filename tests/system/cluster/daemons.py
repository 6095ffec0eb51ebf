"""The driver as manifests/base installs it on a real node: a DaemonSet, from our image."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Final

from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.system.cluster.api import Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.driver import Driver
from tests.system.cluster.inside import HAS_INTERFACE
from tests.system.cluster.installed import BASE, SPACE, Installed
from tests.system.cluster.node import Node

KUSTOMIZATION: Final = f"""
resources: [base]
patches:
- target: {{kind: DaemonSet, name: dranet}}
  patch: |
    - op: add
      path: /spec/template/spec/containers/0/args/-
      value: '--filter={HAS_INTERFACE}'
"""
READY_S: Final = 240.0
GONE_S: Final = 90.0
RECORDS: Final = "/var/lib/dranet-nri /run/dranet-nri /var/run/cdi/dra.net-*"
SPACED: Final = "--namespace=kube-system"
DAEMON_SET: Final = "daemonset/dranet"
# Of each process: its program, how many service account tokens are mounted, its users, what it may
# (linux/capability.h), whether it can get more, and whether its system calls are filtered.
PROCESSES: Final = """
for process in /proc/[0-9]*; do
    case $(tr '\\0' ' ' <$process/cmdline 2>/dev/null) in
    */dra-shim\\ run*) name=shim ;;
    */dranet-nri\\ run*) name=nri ;;
    *) continue ;;
    esac
    if rights=$(sed -n 's/^\\(Uid\\|CapPrm\\|CapEff\\|CapBnd\\|NoNewPrivs\\|Seccomp\\):\\s*//p' \\
        $process/status) && mounts=$(cat $process/mountinfo); then
        echo $name $(echo "$mounts" | grep -c '/secrets/kubernetes.io/serviceaccount') $rights
    fi
done
"""
# Whether one moment within two seconds has neither of them; a look takes some milliseconds.
GONE: Final = r"""
for _ in $(seq 50); do
    grep -qsaP '/(dra-shim|dranet-nri)\x00run\x00' /proc/[0-9]*/cmdline || exit 0
    sleep 0.04
done
exit 1
"""
NET_BROADCAST: Final = 1 << 11
NET_ADMIN: Final = 1 << 12
NET_RAW: Final = 1 << 13
SYS_ADMIN: Final = 1 << 21


@dataclass(frozen=True, slots=True)
class Rights:
    """What the kernel lets a process do.

    Attributes:
        tokens: service account tokens that are mounted.
        users: UIDs: real, effective, saved, of files.
        capabilities: permitted, effective, and all that it could get.
        confined: NoNewPrivs and Seccomp, 2 for a filter.
    """

    tokens: int
    users: frozenset[int]
    capabilities: frozenset[int]
    confined: tuple[int, int] = (1, 2)


# Root without power, or with no more than it must have, for directories that are the host's root's.
MUST: Final = {
    "shim": Rights(1, frozenset({0}), frozenset({0})),
    "nri": Rights(0, frozenset({0}), frozenset({NET_BROADCAST | NET_ADMIN | NET_RAW | SYS_ADMIN})),
}


class Daemons(Driver):
    """The base, changed only as the kustomization says. Made without being installed.

    Args:
        cluster: Where it is installed.
        node: The cluster's node, which gets our image.
        directory: For its kustomization; it exists.
        kustomization: of the base beside it; as it is, veths are offered as well.
    """

    def __init__(
        self,
        cluster: ControlPlane,
        node: Node,
        directory: Path,
        kustomization: str = KUSTOMIZATION,
    ) -> None:
        super().__init__(cluster, node)
        node.load(Path(os.environ["BOX_OCI"]))
        shutil.copytree(BASE, directory / "base")
        (directory / "kustomization.yaml").write_text(kustomization)
        self._directory = directory
        self._cluster = cluster
        self._installed = Installed(cluster, directory)

    def install(self) -> None:
        """Install it, unless it is; return once it is ready."""
        self._installed.apply(self._directory)
        self.wait_ready()

    def uninstall(self) -> None:
        """Remove it as manifests/docs/install.md says; return once its pods are gone."""
        self._cluster.kubectl("delete", f"--kustomize={self._directory}", "--ignore-not-found")
        self.wait_gone()

    def forget(self) -> None:
        """Make the node one that never had it; it is not installed."""
        checked(self.node, "sh", "-c", f"rm -rf {RECORDS}")

    def remove(self) -> None:
        """Delete all, whatever state it is in."""
        self._installed.remove()

    def restart(self) -> None:
        """Replace the pod; return once the new one is ready."""
        self._cluster.kubectl("rollout", "restart", DAEMON_SET, SPACED)
        self.wait_ready()

    def update(self, tag: str) -> None:
        """Replace the pod by one of an image of this tag; return once it is ready."""
        containers = self._installed.daemon_set()["spec"]["template"]["spec"]["containers"]
        before = containers[0]["image"]
        after = f"{before.rpartition(':')[0]}:{tag}"
        checked(self.node, "ctr", "--namespace=k8s.io", "images", "tag", before, after)
        images = [f"{container['name']}={after}" for container in containers]
        self._cluster.kubectl("set", "image", DAEMON_SET, SPACED, *images)
        self.wait_ready()

    def arguments(self) -> list[str]:
        """Return the arguments of the shim."""
        found = self._installed.daemon_set()["spec"]["template"]["spec"]["containers"][0]["args"]
        return list(map(str, found))

    def set_arguments(self, arguments: Sequence[str]) -> None:
        """Replace the arguments of the shim; return once its new pod is ready."""
        path = "/spec/template/spec/containers/0/args"
        patch = json.dumps([{"op": "replace", "path": path, "value": [*arguments]}])
        self._cluster.kubectl("patch", DAEMON_SET, SPACED, "--type=json", f"--patch={patch}")
        self.wait_ready()

    def status(self) -> str:
        """Return what `dranet-nri status` says, in the plugin's container."""
        inside = ("--container=nri", "--", "dranet-nri", "status")
        return self._cluster.kubectl("exec", SPACED, DAEMON_SET, *inside)

    def wait_gone(self) -> None:
        """Return once the node has no pod of the DaemonSet."""
        wait_until("the DaemonSet's pods to be gone", lambda: not self._pods(), GONE_S)

    def wait_ready(self) -> None:
        """Return once the pod of the last template is ready."""
        wait_until("the DaemonSet to be ready", self._is_ready, READY_S)

    def rights(self) -> dict[str, Rights]:
        """Return what the kernel lets each of the two processes do; shall be MUST, as they run."""
        lines = checked(self.node, "sh", "-c", PROCESSES).splitlines()
        return dict(map(_rights, map(str.split, lines)))

    def wait_nobody_runs(self, deadline_s: float) -> None:
        """Return at a moment when neither process runs, however short."""
        gone = ("sh", "-c", GONE)
        wait_until("no driver to run", lambda: not self.node.run(*gone).exit_code, deadline_s)

    def tails(self) -> Generator[tuple[str, str]]:
        """Return the end of each container's log: name and text."""
        for name in ("dranet", "nri"):
            words = ("logs", SPACED, DAEMON_SET, f"--container={name}", "--tail=40")
            try:
                yield name, self._cluster.kubectl(*words)
            except (RuntimeError, TimeoutExpired) as error:  # the log of a failure must not fail
                yield name, str(error)

    def _is_ready(self) -> bool:
        daemon_set = self._installed.daemon_set()
        status = daemon_set["status"]
        return bool(
            status.get("observedGeneration") == daemon_set["metadata"]["generation"]
            and status.get("updatedNumberScheduled", 0) == 1
            and status.get("numberReady", 0) == 1
        )

    def _pods(self) -> list[Object]:
        items: list[Object] = self._cluster.api().get(f"{SPACE}/pods?labelSelector=app%3Ddranet")[
            "items"
        ]
        return items


def _rights(arguments: Sequence[str]) -> tuple[str, Rights]:
    """Return which program it is of, and what a line of PROCESSES says."""
    name, tokens, *rest = arguments
    users, capabilities = map(int, rest[:4]), (int(word, 16) for word in rest[4:7])
    filtered = int(rest[7]), int(rest[8])
    return name, Rights(int(tokens), frozenset(users), frozenset(capabilities), filtered)
