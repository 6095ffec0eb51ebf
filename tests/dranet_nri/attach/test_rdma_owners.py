"""Ownership of RDMA devices: subfunctions, eRDMA, and pods without a record."""

from contextlib import suppress
from dataclasses import replace

import pytest

from dranet_nri.errors import DranetError, RefusedError
from dranet_nri.model import (
    Device,
    DeviceKey,
    InterfaceConfig,
    MacvlanConfig,
    NetworkConfig,
    Ns,
    Phase,
    RdmaConfig,
    RdmaMode,
)
from dranet_nri.plan.ops import RenameRdma
from tests.dranet_nri.attach.execution.node import (
    DATA,
    IB_CONFIG,
    FabricNode,
    Node,
    attached,
    claim,
    given,
    pci,
)
from tests.dranet_nri.hooks.plugin_node import node as plugin_node
from tests.fakes.node import Node as PluginNode

pytestmark = pytest.mark.process


__all__ = ["plugin_node"]

SF, PF = "mlx5_core.sf.2", "0000:01:00.0"
SUBFUNCTION = Device(
    "eth1s88", DeviceKey("auxiliary", SF, "eth1s88", PF), rdma_devices=("mlx5_88",)
)
ERDMA = Device(
    "pci-0000-07-00-0",
    DeviceKey("virtio", "virtio3", "eth7", "0000:07:00.0"),
    rdma_devices=("erdma_0",),
)
RENAMED = NetworkConfig(InterfaceConfig(name="net1"), rdma=RdmaConfig(name="hca0"))


@pytest.fixture
def node() -> Node:
    made = Node()
    made.kernel.add_link("eth1s88", bus="auxiliary", parent=SF)
    made.kernel.add_rdma("mlx5_88", bus="auxiliary", parent=SF)
    made.kernel.add_link("eth7", bus="virtio", parent="virtio3")
    made.kernel.add_rdma("erdma_0", parent="0000:08:00.0", nic="virtio3")
    made.rdma_at_start = made.rdma()
    return made


def in_pod(node: Node) -> set[str]:
    """Return the RDMA devices in the pod."""
    return node.rdma(node.netns)


def lose_records(node: Node, *, called: str = "") -> None:
    """Remove every record, and rename the only RDMA device of the pod."""
    node.journal.records.clear()
    for device in node.kernel.rdma.devices:
        if called and device.netns == node.netns:
            rename = RenameRdma(Ns.POD, device.link.index, called)
            node.kernel.rdma.rename(rename, {Ns.POD: node.netns})


@pytest.mark.parametrize(
    ("device", "names"), [(SUBFUNCTION, {"mlx5_88"}), (ERDMA, {"erdma_0"})], ids=["SF", "eRDMA"]
)
def test_only_the_rdma_device_of_the_nic_is_moved_and_restored(
    node: Node, device: Device, names: set[str]
) -> None:
    record = attached(node, given(device))

    assert in_pod(node) == names == {rdma.name for rdma in record.rdma}
    (attachment,) = node.journal.records.values()
    assert node.executor.verify(attachment, None) == attachment
    node.detach()
    assert node.journal.phases() == {DATA: Phase.RESTORED}
    node.assert_restored()


@pytest.mark.parametrize("device", [SUBFUNCTION, ERDMA], ids=["SF", "eRDMA"])
def test_pod_gets_only_the_files_of_its_rdma_device_in_shared_mode(
    node: Node, device: Device
) -> None:
    node.kernel.rdma.mode = RdmaMode.SHARED
    claims = claim(DATA, given(device))

    (record,) = node.attach((claims,))

    slots = {device.link.name: device.slot for device in node.kernel.rdma.devices}
    (name,) = device.rdma_devices
    assert [device.path for device in record.devices[0].char_devices] == [
        "/dev/infiniband/rdma_cm",
        f"/dev/infiniband/uverbs{slots[name]}",
    ]
    assert node.executor.verify(record, claims) == record


@pytest.mark.parametrize("device", [SUBFUNCTION, ERDMA], ids=["SF", "eRDMA"])
def test_child_gets_the_files_of_the_rdma_device_of_its_parent(node: Node, device: Device) -> None:
    node.kernel.rdma.mode = RdmaMode.SHARED
    config = NetworkConfig(InterfaceConfig(name="net1", macvlan=MacvlanConfig()))

    claims = claim(DATA, given(device, config))

    (record,) = node.attach((claims,))

    assert record.devices[0].shared_rdma == device.rdma_devices
    assert record.devices[0].char_devices
    assert node.executor.verify(record, claims) == record


BOND = Device("bond0", DeviceKey("", "", "bond0"), rdma_devices=("mlx5_bond_0",))


@pytest.fixture
def lag(node: Node) -> Node:
    """Return the node with RoCE LAG."""
    node.kernel.add_link("bond0", kind="bond")
    for number, address in enumerate(("0000:0b:00.0", "0000:0b:00.1")):
        node.kernel.add_link(f"ens1f{number}", parent=address, master="bond0")
    node.kernel.add_rdma("mlx5_bond_0", parent="0000:0b:00.0")
    node.rdma_at_start = node.rdma()
    return node


def test_child_of_a_bond_gets_the_files_of_the_rdma_device_of_its_ports(lag: Node) -> None:
    lag.kernel.rdma.mode = RdmaMode.SHARED
    config = NetworkConfig(InterfaceConfig(name="net1", macvlan=MacvlanConfig()))

    claims = claim(DATA, given(BOND, config))

    (record,) = lag.attach((claims,))

    assert record.devices[0].shared_rdma == ("mlx5_bond_0",)
    assert lag.executor.verify(record, claims) == record
    lag.detach()
    lag.assert_restored()


@pytest.mark.parametrize("mode", RdmaMode)
@pytest.mark.parametrize("name", ["bond0", "eth4"])
def test_record_cannot_take_the_rdma_device_of_a_bond(lag: Node, mode: RdmaMode, name: str) -> None:
    lag.kernel.rdma.mode = mode
    key = DeviceKey("", "", name) if name == "bond0" else replace(pci(4).key, name="bond0")
    forged = Device("forged", key, rdma_devices=("mlx5_bond_0",))

    with suppress(DranetError):
        attached(lag, given(forged))

    assert "mlx5_bond_0" not in in_pod(lag) or mode is RdmaMode.SHARED
    records = (device for record in lag.journal.records.values() for device in record.devices)
    assert not any("mlx5_bond_0" in device.shared_rdma for device in records)


# --------------------------------------------------------------------------- adoption


@pytest.mark.parametrize("called", ["", "mine"])
def test_rdma_device_without_a_record_is_identified_by_its_nic(node: Node, called: str) -> None:
    attached(node, given(pci(1)))
    lose_records(node, called=called)

    record = attached(node, given(pci(1)))

    assert [rdma.name for rdma in record.rdma] == ["mlx5_1"]
    node.detach()
    assert node.journal.phases() == {DATA: Phase.RESTORED}
    assert node.rdma() == node.rdma_at_start


def test_infiniband_device_without_a_record_is_identified_by_the_claim_name() -> None:
    node = FabricNode()
    (device, *_) = node.claims[0].devices
    assert device.config == IB_CONFIG
    attached(node, device)
    lose_records(node)

    record = attached(node, device)

    assert ([rdma.name for rdma in record.rdma], record.rdma_name) == (["mlx5_5"], "hca0")
    assert in_pod(node) == {"hca0"}
    node.detach()
    assert node.journal.phases() == {DATA: Phase.RESTORED}
    assert node.rdma() == node.rdma_at_start
    assert node.kernel.state("ibs5") is not None


def test_infiniband_device_renamed_by_the_pod_is_not_adopted() -> None:
    node = FabricNode()
    (device, *_) = node.claims[0].devices
    attached(node, device)
    lose_records(node, called="mine")

    with pytest.raises(RefusedError, match="RDMA device mlx5_5 is not on the host"):
        attached(node, device)

    assert in_pod(node) == {"mine"}


def test_rdma_devices_of_the_pod_and_of_another_claim_stay_in_the_pod(node: Node) -> None:
    attached(node, given(pci(1)), given(pci(2)))
    lose_records(node)
    made = node.kernel.add_rdma("rxe0", nic=pci(1).key.parent)
    made.netns = node.netns

    record = attached(node, given(pci(1)))
    node.detach()

    assert [rdma.name for rdma in record.rdma] == ["mlx5_1"]
    assert in_pod(node) == {"mlx5_2", "rxe0"}


def test_rdma_device_with_another_guid_is_refused(node: Node) -> None:
    published = replace(pci(1), attributes=(("dra.net/nodeGUID", "0c42:a103:0065:5a1e"),))
    attached(node, given(published))
    lose_records(node)

    with pytest.raises(RefusedError, match="RDMA device mlx5_1 is not on the host"):
        attached(node, given(published))


@pytest.mark.parametrize("config", [RENAMED, NetworkConfig()], ids=["renamed", "as it is"])
def test_nic_with_rdma_and_a_corrupt_record_is_adopted_from_the_pod(
    plugin_node: PluginNode, config: NetworkConfig
) -> None:
    node = plugin_node
    pod = node.pod("web")
    made = node.allocate(pod, 1, rdma=True, config=config)
    node.run_pod(pod)
    inside = node.kernel.rdma.names(node.netns(pod))
    node.attachments.remove(made.claim.uid)

    node.restart()
    node.synchronize(pod)

    assert node.phase(made) is Phase.ATTACHED
    assert node.gate_open(made)
    assert node.kernel.rdma.names(node.netns(pod)) == inside == [config.rdma.name or "mlx5_1"]
    node.stop_pod(pod)
    assert node.phase(made) is Phase.RESTORED
    assert node.is_on_host(1)
    assert [device.link.name for device in node.kernel.rdma.devices] == ["mlx5_1"]
    assert node.kernel.rdma.names(node.netns(pod)) == []


def test_software_device_with_a_name_of_the_pod_is_not_its(node: Node) -> None:
    attached(node, given(pci(2)))
    node.kernel.add_rdma("mlx5_2", parent="")  # names are per namespace since Linux 7.3
    (attachment,) = node.journal.records.values()

    assert node.executor.verify(attachment, claim(DATA, given(pci(2)))) == attachment
