"""The machine as the Kubernetes API shows it, and as the kernel shows it."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.box import rdma
from tests.box.nics import changes
from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.system.cluster.api import Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.node import Node
from tests.system.cluster.workload import SLICES
from tests.system.cluster_vm.hardware import Facts

# Of the virtual functions: what claims set in pods. One may be renamed during the command.
SYSCTLS: Final = "cd /proc/sys/net/ipv4/conf && grep -s . ens*v0/arp_ignore ens*v0/arp_announce; :"


class Machine:
    """A node that is a machine, with the driver installed.

    Attributes:
        node: the node.
        functions: the attributes that the device of each PCI function must have, by name,
            as of the last `remember`.
    """

    def __init__(self, cluster: ControlPlane, node: Node) -> None:
        self.node = node
        self.functions: dict[str, Facts] = {}
        self._api = cluster.api()
        self._before: dict[str, object] = {}

    def remember(self) -> None:
        """Take the node as it is now for how it shall be when no pod has a NIC."""
        wait_until("the carriers of all functions", self._look)
        self.node.settle()
        self._before = self.state()
        assert self._before["sysctl"], "no sysctls of virtual functions"

    def _look(self) -> bool:
        """Take the functions as they are; return whether all are up, for a carrier comes late."""
        shown = checked(self.node, "python3", "-m", "tests.system.cluster_vm.hardware")
        self.functions = json.loads(shown)
        return all(facts["dra.net/state"] == "up" for facts in self.functions.values())

    def settle(self) -> None:
        """Remember the node; return once the slices show just that."""
        self.remember()
        self.wait_published()

    def wait_published(self) -> None:
        """Return once the slices have the functions, all of them and as they are."""
        try:
            wait_until("slices of all functions", lambda: not self._differences())
        except TimeoutError as error:
            raise AssertionError(self._differences()) from error

    def _differences(self) -> dict[str, object]:
        """Return what the slices show of a function that is not as it is there, by device."""
        shown = self.published()
        every: dict[str, Facts] = {name: {} for name in shown} | self.functions
        return {
            name: {
                "shown": sorted(shown.get(name, {}).items() - facts.items(), key=str),
                "is": sorted(facts.items() - shown.get(name, {}).items(), key=str),
            }
            for name, facts in every.items()
            if shown.get(name) != facts
        }

    def published(self) -> dict[str, Facts]:
        """Return the devices in the node's slices, with those attributes that `functions` has."""
        names = {name for facts in self.functions.values() for name in facts}
        return {
            name: {request: attributes.get(request) for request in names}
            for name, attributes in self.devices().items()
        }

    def devices(self) -> dict[str, Facts]:
        """Return the attributes of all devices in the node's slices, by name."""
        slices: list[Object] = self._api.get(SLICES)["items"]
        return {
            device["name"]: {
                name: next(iter(value.values())) for name, value in device["attributes"].items()
            }
            for resource_slice in slices
            if resource_slice["spec"].get("nodeName") == self.node.name
            for device in resource_slice["spec"].get("devices", ())
        }

    def named(self, device: str) -> Any:
        """Return the interface that the function of this device is."""
        return self.functions[device]["dra.net/ifName"]

    def state(self) -> dict[str, object]:
        """Return what pods must not change: links, routes and such, RDMA devices, sysctls."""
        return self.node.state() | {
            "rdma": sorted(map(str, rdma.links(self.node).items())),
            "sysctl": checked(self.node, "sh", "-c", SYSCTLS).splitlines(),
        }

    def wait_restored(self) -> None:
        """Return once the node is as remembered."""
        try:
            wait_until("the NICs to be restored", lambda: self.state() == self._before)
        except TimeoutError as error:
            raise AssertionError(changes(self._before, self.state())) from error
