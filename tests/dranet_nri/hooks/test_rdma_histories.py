"""RDMA devices of running pods, across what drivers, administrators and pods do to them."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.model import Allocation, Device, DeviceKey, Ns, Phase, Pod, RdmaMode
from dranet_nri.plan.ops import RenameRdma
from tests.fakes.node import Node, pci_key
from tests.fakes.rdma import FakeRdma
from tests.fakes.world import HOST_NETNS

pytestmark = pytest.mark.process

FUNCTION = "0000:09:00.0"
PARENTS = {
    "mlx5_1": pci_key(1).parent,
    "mlx5_10": pci_key(1).parent,
    "mlx5_2": pci_key(2).parent,
    "ibp9": FUNCTION,
}
# Pods: two RDMA devices of a NIC; one; a function without a net device, which is InfiniBand.
PODS = {"two": ("mlx5_1", "mlx5_10"), "one": ("mlx5_2",), "bare": ("ibp9",)}

HISTORIES = {
    "nothing": [],
    "numbers swapped between pods": ["swap numbers"],
    "numbers moved, then the plugin restarts": ["move numbers", "restart"],
    "the plugin is down while numbers move": ["stop", "move numbers", "start"],
    "one driver reloaded": ["unload mlx5_2", "look", "load mlx5_2"],
    "one of two drivers reloaded": ["unload mlx5_10", "look", "load mlx5_10"],
    "one of two drivers loaded after the start": ["unload mlx5_10", "start again", "load mlx5_10"],
    "function reloaded": ["unload ibp9", "look", "load ibp9"],
    "all reloaded in another order": ["unload all", "look", "load all"],
    "all reloaded while the plugin is down": ["stop", "unload all", "load all", "start"],
    "rdma_cm unloaded": ["unload rdma_cm", "look", "load rdma_cm"],
    "rdma_cm unloaded with a restart": ["unload rdma_cm", "restart", "look", "load rdma_cm"],
    "reloaded, then renumbered": ["unload all", "load all", "look", "swap numbers"],
    "renamed": ["rename mlx5_2 roce2"],
    "one of two renamed": ["rename mlx5_10 roce10", "look"],
    "function renamed, then a restart": ["rename ibp9 ib0", "restart"],
}


class Machine:
    """A node with three pods that run, in one mode."""

    def __init__(self, root: Path, mode: RdmaMode) -> None:
        self.node = Node(root)
        self.mode = mode
        self.rdma = self.node.kernel.rdma
        for name, parent in PARENTS.items():
            self.node.kernel.add_rdma(name, parent=parent)
        self.node.kernel.rdma.mode = mode
        self.devices = {device.link.name: device for device in self.rdma.devices}
        self.pods = {name: self.node.pod(name) for name in PODS}
        self.claims = {
            name: self._allocate(pod, number)
            for number, (name, pod) in enumerate(self.pods.items(), 1)
        }
        for pod in self.pods.values():
            self.node.run_pod(pod)

    def _allocate(self, pod: Pod, number: int) -> Allocation:
        made = self.node.allocate(pod, number, claim=pod.name)
        (given,) = made.devices
        device = replace(given.device, rdma_devices=PODS[pod.name])
        if pod.name == "bare":
            device = Device(
                "pci-0000-09-00-0", DeviceKey("pci", FUNCTION, "", FUNCTION), (), PODS["bare"]
            )
        allocation = replace(made, devices=(replace(given, device=device),))
        self.node.allocations.put(allocation)
        return allocation

    def do(self, event: str) -> None:
        """Let it happen."""
        match event.split():
            case ["swap", "numbers"]:
                one, other = self.devices["mlx5_1"], self.devices["mlx5_2"]
                one.slot, other.slot = other.slot, one.slot
            case ["move", "numbers"]:
                for device in self.rdma.devices:
                    device.slot += 5
            case ["unload", "rdma_cm"]:
                self.rdma.kinds = ("uverbs",)
            case ["load", "rdma_cm"]:
                self.rdma.kinds = ("uverbs", "rdma_cm")
            case ["unload", which]:
                for name in self._named(which):
                    self.rdma.remove(self.devices[name].link.name)
            case ["load", which]:
                for name in reversed(self._named(which)):
                    self.node.kernel.add_rdma(name, parent=PARENTS[name])
                    self.devices[name] = self.rdma.devices[-1]
            case ["rename", old, new]:
                self._rename(next(d for d in self.rdma.devices if d.link.name == old), new)
            case ["start", "again"]:
                for name, pod in self.pods.items():
                    self.node.stop_pod(pod)
                    self.node.attachments.remove(self.claims[name].claim.uid)
                    self.node.run_pod(pod)
            case ["restart"]:
                self.node.restart()
                self.look()
            case ["stop"]:
                self.node.stop()
            case ["start"]:
                for netns in tuple(self.node.kernel.held):
                    self.node.kernel.release(netns)
                self.node.start()
            case ["look"]:
                self.look()

    def look(self) -> None:
        """Let the plugin look twice."""
        self.node.synchronize(*self.pods.values(), rounds=2)

    def _named(self, which: str) -> tuple[str, ...]:
        return tuple(PARENTS) if which == "all" else (which,)

    def _rename(self, device: FakeRdma, name: str) -> None:
        ns = Ns.HOST if device.netns == HOST_NETNS else Ns.POD
        self.rdma.rename(RenameRdma(ns, device.link.index, name), {ns: device.netns})

    def files_of(self, pod: str) -> list[str]:
        """Return the names of the files of the claim's CDI spec."""
        path = self.node.gate.spec_path(self.claims[pod].claim.uid)
        edits = json.loads(path.read_bytes())["devices"][0]["containerEdits"]
        return [one["path"].rpartition("/")[2] for one in edits["deviceNodes"]]


@pytest.fixture(params=RdmaMode)
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Machine]:
    """Return a machine."""
    made = Machine(tmp_path, request.param)
    yield made
    made.node.close()


@pytest.mark.parametrize("history", HISTORIES)
def test_each_pod_has_its_own_rdma_devices_after(machine: Machine, history: str) -> None:
    for event in HISTORIES[history]:
        machine.do(event)
    machine.look()

    for name, pod in machine.pods.items():
        own = [machine.devices[rdma] for rdma in PODS[name]]
        numbers = sorted(device.slot for device in own)
        assert machine.files_of(name) == ["rdma_cm", *(f"uverbs{slot}" for slot in numbers)]
        edits = machine.node.create(pod)
        assert [file.minor for file in edits.char_devices] == [122, *(192 + n for n in numbers)]
        given = dict(edits.env)[
            f"DRA_NET_{name.upper()}_NIC{list(PODS).index(name) + 1}_RDMA_DEVICES"
        ]
        moved = machine.mode is RdmaMode.EXCLUSIVE  # then only the pod itself can rename it
        names = [rdma if moved else machine.devices[rdma].link.name for rdma in PODS[name]]
        assert sorted(given.split(",")) == sorted(names)
        where = machine.node.netns(pod) if moved else HOST_NETNS
        assert {device.netns for device in own} == {where}

    for pod in machine.pods.values():
        machine.node.stop_pod(pod)
    assert {machine.node.phase(claim) for claim in machine.claims.values()} <= {
        Phase.RESTORED,
        None,
    }
    assert {device.netns for device in machine.rdma.devices} == {HOST_NETNS}
    if machine.mode is RdmaMode.EXCLUSIVE:
        assert all(device.link.name == name for name, device in machine.devices.items())
    assert machine.node.is_on_host(1)
    assert machine.node.is_on_host(2)


def test_pod_without_one_of_its_two_rdma_devices_starts_no_container(machine: Machine) -> None:
    machine.do("unload mlx5_10")
    machine.look()

    if machine.mode is RdmaMode.SHARED:
        assert machine.files_of("two") == ["rdma_cm", f"uverbs{machine.devices['mlx5_1'].slot}"]
        return
    with pytest.raises(RefusedError, match="its RDMA device mlx5_10 is not on the host"):
        machine.node.create(machine.pods["two"])
    machine.do("load mlx5_10")
    machine.look()
    assert machine.node.create(machine.pods["two"]).char_devices
