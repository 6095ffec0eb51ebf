"""Real kubelet on a test node, from start to SIGKILL, beside its containerd."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from tests.box.containerd import SOCKET
from tests.box.waiting import wait_until

CONFIG: Final = Path("/etc/kubernetes/kubelet.json")
PORT: Final = 10250
HEALTH_PORT: Final = 10248
# Of a node without a machine of its own, where kernel, disk and build machine are the host's.
IN_NAMESPACES: Final[dict[str, object]] = {
    "failCgroupV1": False,  # a build machine may have nothing else
    "failSwapOn": False,
    "oomScoreAdj": 0,  # less needs CAP_SYS_RESOURCE
    # Full or not, the disk is none of the tests' business.
    "evictionHard": {"memory.available": "0%", "nodefs.available": "0%"},
    "imageGCHighThresholdPercent": 100,
}
# What a kubelet sets for the whole kernel, which the box has in common with its host.
KERNEL_SETTINGS: Final = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)


class Kubelet:
    """One kubelet. Made stopped; pods outlive its process.

    Args:
        program: The kubelet.
        kubeconfig: Who it is and where its API server is.
        ca: The authority of those who may call it.
        address: The node's.
        log: Where it writes what it says; appended to.
    """

    def __init__(self, program: Path, kubeconfig: Path, ca: Path, address: str, log: Path) -> None:
        self._command = (
            program,
            f"--config={CONFIG}",
            f"--kubeconfig={kubeconfig}",
            f"--node-ip={address}",
            "--v=2",
        )
        self._configuration = _configuration(ca)
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it calls itself healthy."""
        assert self._process is None, "the kubelet is running already"
        _prepare_machine()
        CONFIG.parent.mkdir(exist_ok=True)
        CONFIG.write_text(json.dumps(self._configuration))
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_until("the kubelet to be healthy", self._is_healthy)

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it without warning."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None, "the kubelet is not running"
        self._process.send_signal(number)
        self._process.wait(timeout=90)
        self._process = None

    def _is_healthy(self) -> bool:
        assert self._process is not None
        code = self._process.poll()
        assert code is None, f"the kubelet exited with {code}; see its log"
        connection = HTTPConnection("127.0.0.1", HEALTH_PORT, timeout=60)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


def _configuration(ca: Path) -> dict[str, object]:
    """Return what differs from the release, and why it must."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"x509": {"clientCAFile": str(ca)}},
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",  # no systemd in the box
        "port": PORT,
        "healthzPort": HEALTH_PORT,
        # Tests wait for these. A machine is slower than namespaces.
        "nodeStatusUpdateFrequency": "2s" if _in_namespaces() else "10s",
        "syncFrequency": "10s",
        "crashLoopBackOff": {"maxContainerRestartPeriod": "2s"},
        "featureGates": {"KubeletCrashLoopBackOffMax": True},  # for it; on by default from 1.35 on
        **(IN_NAMESPACES if _in_namespaces() else {}),
    }


def _in_namespaces() -> bool:
    return os.environ["BOX_TIER"] == "host"


def _prepare_machine() -> None:
    """Give the kubelet what it insists on, and keep it from changing the host's kernel."""
    kmsg = Path("/dev/kmsg")
    if not kmsg.exists():
        kmsg.symlink_to("null")  # whom the host's kernel kills is not told
    if not _in_namespaces():
        return
    for name in KERNEL_SETTINGS:
        setting = Path("/proc/sys", name)
        if not os.path.ismount(setting):
            copy = Path("/run", setting.name)
            copy.write_text(setting.read_text())
            subprocess.run(("mount", "--bind", copy, setting), check=True)
