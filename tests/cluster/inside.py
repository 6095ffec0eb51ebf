"""What runs on the node of the cluster: it starts and ends the node's parts, as the tests say.

A question is `[part, verb, argument…]`. The part `node` runs commands; the others are programs, and
their verbs the methods of the classes below. The answer is `[result, error]`, one of them null.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.box import containerd, lines, plugin, shim
from tests.box.containerd import Containerd
from tests.box.kubelet import Kubelet
from tests.box.nics import host_state, ip, make_wires
from tests.box.place import NODE
from tests.box.plugin import Plugin
from tests.box.shim import Shim

ADDRESS: Final = "192.0.2.10"
GATEWAY: Final = "192.0.2.1"  # behind which is the API server
SERVICE: Final = "10.96.0.1"  # of the API server, first of the services' addresses
PODS: Final = "10.88.0.0/16"
PORT: Final = 7000
NICS: Final = 8
# Wires are veths, which are not for pods by default. The machine's own NICs are, but have their
# interfaces elsewhere.
HAS_INTERFACE: Final = '"dra.net/ifName" in attributes'
IO: Final = Path("/io")


class _Commands:
    def run(self, *command: str) -> tuple[int, str, str]:
        """Run a command to its end, for a minute at most."""
        done = NODE.run(*command)
        return done.exit_code, done.stdout, done.stderr

    def state(self) -> dict[str, object]:
        """Return what pods must not change: links, addresses, routes and rules."""
        return host_state()


def main() -> None:
    """Make the node's network, then do as told until the node is no more."""
    for log in (containerd.LOG, plugin.LOG, shim.LOG):
        log.symlink_to(IO / log.name)  # where the tests see it, also when the node is gone
    if os.environ["BOX_TIER"] == "host":
        _lay_uplink()
        make_wires(NICS)
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
    for command in (
        ("link", "set", "lo", "up"),
        ("addr", "add", f"{GATEWAY}/24", "dev", "node"),
        ("addr", "add", f"{SERVICE}/32", "dev", "lo"),
        ("link", "set", "node", "up"),
        ("route", "add", PODS, "via", ADDRESS),
    ):
        ip("-n", "gateway", *command)
    with (
        socket.socket(socket.AF_UNIX) as tests,
        Path("/run/netns/gateway").open("rb") as gateway,
    ):
        tests.connect(str(IO / "uplink.sock"))
        socket.send_fds(tests, [b"gateway"], [gateway.fileno()])
        tests.recv(1)  # it is in use


if __name__ == "__main__":
    main()
