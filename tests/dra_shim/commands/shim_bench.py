"""`dra-shim` in a directory of its own, with an inventory, a class and claims."""

import json
import sys
from pathlib import Path

from dra_shim.cli import main
from dranet_nri.state.reader import AllocationReader
from tests.fakes.called import Ended, called

ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[3])}  # of a child process
CLASS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: dranet}
spec:
  selectors:
  - cel: {expression: device.driver == "dra.net"}
"""
CLAIM = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: fast, namespace: default}
spec:
  devices:
    requests:
    - name: nics
      exactly: {deviceClassName: dranet, count: 2}
    constraints:
    - matchAttribute: resource.kubernetes.io/numaNode
    config:
    - requests: [nics]
      opaque:
        driver: dra.net
        parameters:
          interface: {mtu: 4000}
          routes: [{destination: 10.9.0.0/16, scope: 253}]
"""
TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec:
  spec:
    devices:
      requests:
      - name: nic
        exactly: {deviceClassName: dranet}
"""


def nic(number: int, numa: int) -> dict[str, object]:
    return {
        "name": f"pci-0000-0{number}-00-0",
        "attributes": {
            "dra.net/ifName": f"eth{number}",
            "dra.net/pciAddress": f"0000:0{number}:00.0",
            "resource.kubernetes.io/numaNode": numa,
        },
        "rdmaDevices": [],
    }


class Shim:
    """Runs the program in a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        inventory = {
            "devices": [nic(1, 0), nic(2, 1), nic(3, 1)],
            "excluded": [{"name": "eth0", "reason": "carries the default route"}],
        }
        self.write("inventory.json", json.dumps(inventory))
        self.write("class.yaml", CLASS)
        self.write("claim.yaml", CLAIM)

    def write(self, name: str, text: str) -> str:
        (self.directory / name).write_text(text, "utf-8")
        return name

    def run(self, *arguments: str, stdin: str = "") -> Ended:
        return called(main, *arguments, cwd=self.directory, stdin=stdin)

    def allocate(self, *arguments: str, pod: str = "p1", claim: str = "claim.yaml") -> Ended:
        return self.run(
            "allocate", "--claim", claim, "--class", "class.yaml", "--pod", pod,
            "--inventory", "inventory.json", "--state-dir", "state", "--run-dir", "run",
            "--node", "node-1", *arguments,
        )  # fmt: skip

    def release(self, *arguments: str) -> Ended:
        return self.run("release", *arguments, "--state-dir", "state", "--run-dir", "run")

    def records(self) -> AllocationReader:
        return AllocationReader(self.directory / "state/allocations", owner=None)


def command(*arguments: str) -> tuple[str, ...]:
    """Return the command of a child process, for a test that needs a process of its own."""
    return (sys.executable, "-m", "dra_shim", *arguments)


def lines(text: str) -> list[str]:
    return [line.removeprefix("dra-shim: ") for line in text.splitlines()]
