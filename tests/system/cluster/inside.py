"""The control program on the cluster's node: it starts and stops the node's parts for the tests.

A question is `[part, verb, argument…]`. The part `node` runs commands; the others are programs, and
their verbs the methods of the classes below. The answer is `[result, error]`, one of them null.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.box import containerd, lines, plugin, rdma, shim
from tests.box.containerd import Containerd
from tests.box.kubelet import Kubelet
from tests.box.nics import dress_functions, host_state, ip, make_functions, make_wires, settled
from tests.box.plugin import Plugin
from tests.box.rdma_pods import make_hcas
from tests.box.shim import Shim
from tests.box.target import NODE
from tests.system.cluster.gateway import ADDRESS, GATEWAY, configure_link, hand_over

PORT: Final = 7000
NICS: Final = 8
# Wires are veths, which are not for pods by default. The machine's own NICs are, but have their
# interfaces elsewhere.
HAS_INTERFACE: Final = '"dra.net/ifName" in attributes'
IO: Final = Path("/io")
RESET_S: Final = 0.5  # time for the answer to be on its way


class _Commands:
    def run(self, *command: str) -> tuple[int, str, str]:
        """Run a command to its end, for a minute at most."""
        done = NODE.run(*command)
        return done.exit_code, done.stdout, done.stderr

    def state(self) -> dict[str, object]:
        """Return what pods must not change: links, addresses, routes and rules."""
        return host_state()

    def settle(self) -> None:
        """Return once no address of the node is tentative, as none is that a NIC returned with."""
        settled()

    def load(self, archive: str) -> None:
        """Give the runtime an image; however long that takes."""
        command = ("ctr", "--namespace=k8s.io", "images", "import", archive)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{archive}: {done.stdout}{done.stderr}".strip())

    def boot(self) -> str:
        """Return the kernel's name for this boot."""
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    def reset(self) -> None:
        """Have the machine begin anew (run-machine): disks are written, nothing is ended."""
        threading.Timer(RESET_S, _reset).start()


def main() -> None:
    """Make the node's NICs, then do as told until the node is no more."""
    for log in (containerd.LOG, plugin.LOG, shim.LOG):
        log.symlink_to(IO / log.name)  # where the tests see it, also when the node is gone
    if os.environ["BOX_TIER"] == "host":
        _lay_uplink()
        make_wires(NICS)
    else:
        _make_functions()
    parts: Mapping[str, object] = {
        "node": _Commands(),
        "containerd": Containerd(),
        "kubelet": Kubelet(
            IO / "kubelet", IO / "node.kubeconfig", IO / "ca.crt", ADDRESS, IO / "kubelet.log"
        ),
        "plugin": Plugin(),
        "shim": Shim("--kubeconfig", str(IO / "shim.kubeconfig"), f"--filter={HAS_INTERFACE}"),
    }

    def answer(question: list[str]) -> tuple[object, str | None]:
        part, verb, *arguments = question
        try:
            return getattr(parts[part], verb)(*arguments), None
        except Exception as error:  # noqa: BLE001 - told to whoever asked
            return None, f"{part} {verb}: {type(error).__name__}: {error}"

    lines.serve((ADDRESS, PORT), answer)


def _lay_uplink() -> None:
    """Make the node's uplink, and hand the namespace at its other end to the tests."""
    ip("netns", "add", "gateway")
    ip("link", "add", "uplink", "type", "veth", "peer", "name", "node", "netns", "gateway")
    ip("addr", "add", f"{ADDRESS}/24", "dev", "uplink")
    ip("link", "set", "uplink", "up")
    ip("route", "add", "default", "via", GATEWAY, "dev", "uplink")
    configure_link("node", "gateway")
    hand_over(Path("/run/netns/gateway"), IO / "uplink.sock")


def _make_functions() -> None:
    """Make a virtual function on each NIC; on one NUMA node they have RDMA devices, which move.

    Each has a sysctl that is not as it is by default, and that claims change.
    """
    rdma.load(rdma.Driver.MOVABLE)
    rdma.set_netns_mode("exclusive")
    nics = dress_functions(make_functions(NICS))
    make_hcas(nics[NICS // 2 :])
    for nic in nics:
        Path("/proc/sys/net/ipv4/conf", nic.name, "arp_ignore").write_text("2")
    settled()


def _reset() -> None:
    os.sync()
    Path("/ctl/again").touch()
    Path("/proc/sysrq-trigger").write_text("b")


if __name__ == "__main__":
    main()
