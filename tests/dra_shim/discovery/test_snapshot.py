"""Snapshots: devices on the host or in pods, without unsafe and unselected ones."""

from dataclasses import replace

import pytest

from dra_shim.cel import SelectorError
from dra_shim.checkpoint.cache import RecordedDevices
from dra_shim.discovery.snapshot import (
    EXPLANATIONS,
    LINK_IN_POD,
    DeviceSelection,
    NodeSnapshot,
    snapshot_of,
    with_rdma,
)
from dra_shim.pool import NO_CARRIER, NO_DRIVER, NO_RDMA, PORT_DOWN, VANISHED, DeviceHealth
from dranet_nri.inventory import NUMA_NODE, HostFacts, NetDevice, RdmaDeviceFacts, RdmaPortFacts
from dranet_nri.model import ARPHRD_INFINIBAND, DefaultRoute, Device, DeviceKey, Link
from tests.dra_shim.resourceslice.pools import PF, function, nic
from tests.fakes.host import FakeHost

NODE = "node-1"
PCI = "pci-0000-8a-00-0"
VF = "0000:8a:00.2"
ALL = DeviceSelection(filter="")


def view(facts: HostFacts, *devices: Device, choice: DeviceSelection = ALL) -> NodeSnapshot:
    return snapshot_of(NODE, facts, recorded(*devices), choice)


def recorded(*devices: Device) -> RecordedDevices:
    return RecordedDevices({device.name: device for device in devices})


def virtual(*names: str) -> HostFacts:
    host = FakeHost()
    for name in names:
        host.add_nic(name)
    return host.facts


def hca(name: str, state: str = "ACTIVE") -> RdmaDeviceFacts:
    return RdmaDeviceFacts(
        name, "pci", PF, PF, ports=(RdmaPortFacts(1, state, link_layer="InfiniBand"),)
    )


RECORDED = Device(
    PCI,
    DeviceKey("pci", PF, "eth1", PF),
    (("dra.net/ifName", "eth1"), ("dra.net/mtu", 9000)),
)


def test_present_devices_are_published_sorted_by_name() -> None:
    found = view(virtual("b", "a"))

    assert list(found.devices) == ["a", "b"]
    assert [device.name for device in found.resources.devices] == ["a", "b"]
    assert {device.pool for device in found.resources.devices} == {NODE}
    assert found.health == tuple(DeviceHealth(NODE, name, healthy=True) for name in "ab")
    assert found.unhealthy == {}


def test_empty_node_gives_an_empty_snapshot() -> None:
    assert view(HostFacts()) == NodeSnapshot()


def test_rdma_devices_are_counted() -> None:
    facts = HostFacts((function(),), (nic("ib0", up=False),), (hca("mlx5_0"),))

    assert view(facts).rdma == 1
    assert view(virtual("a")).rdma == 0


# --------------------------------------------------------------------------- in pods


def test_device_in_a_pod_keeps_its_last_facts_and_has_unknown_health() -> None:
    found = view(HostFacts((function(),)), RECORDED)

    assert found.devices[PCI].attribute("dra.net/mtu") == 9000
    assert found.devices[PCI].attribute("dra.net/pciAddress") == PF
    assert found.health == (DeviceHealth(NODE, PCI, healthy=None, message=LINK_IN_POD),)
    assert found.resources.devices[0].taints == ()


def test_virtual_device_in_a_pod_is_published_from_its_record() -> None:
    recorded = Device("mv0", DeviceKey("", "", "mv0"), (("dra.net/ifName", "mv0"),))

    found = view(HostFacts(), recorded)

    assert found.devices == {"mv0": recorded}
    assert found.health[0].healthy is None


def test_recorded_device_on_the_host_has_its_current_facts() -> None:
    found = view(HostFacts((function(),), (nic("eth1"),)), RECORDED)

    assert found.devices[PCI].attribute("dra.net/mtu") == 1500
    assert found.health == (DeviceHealth(NODE, PCI, healthy=True),)


def test_rdma_device_on_the_host_gives_the_health_of_its_device() -> None:
    recorded = Device(PCI, DeviceKey("pci", PF, "ib0", PF), (), ("mlx5_0",))
    facts = HostFacts((function(),), (), (hca("mlx5_0", "DOWN"),))

    assert view(facts, recorded).unhealthy == {PCI: PORT_DOWN}
    assert view(HostFacts((function(),), (), (hca("mlx5_0"),)), recorded).health[0].healthy is True


def test_former_rdma_device_is_kept_for_functions_only() -> None:
    software = Device("dummy0", DeviceKey("", "", "dummy0"), rdma_devices=("rxe0",))
    facts = HostFacts((function(),), (nic("eth1"),))
    former = replace(view(facts).allocatable[PCI], rdma_devices=("mlx5_0",))

    assert with_rdma((former, RECORDED, software)) == {PCI: former}
    found = snapshot_of(NODE, facts, RecordedDevices(), ALL, last_with_rdma=with_rdma((former,)))
    assert found.allocatable == {PCI: former}
    assert found.unhealthy == {PCI: NO_RDMA}
    moved = RecordedDevices({PCI: former}, frozenset({PCI}))
    assert snapshot_of(NODE, facts, moved, ALL, last_with_rdma={PCI: former}).unhealthy == {}
    renamed = replace(former, key=replace(former.key, name="eth7"))
    assert (
        snapshot_of(NODE, facts, RecordedDevices(), ALL, last_with_rdma={PCI: renamed}).unhealthy
        == {}
    )


@pytest.mark.parametrize(("port", "unhealthy"), [(0, {}), (1, {PCI: PORT_DOWN})])
def test_each_infiniband_port_has_its_own_health(port: int, unhealthy: dict[str, str]) -> None:
    recorded = Device(PCI, DeviceKey("pci", PF, "ib0", PF, port=port), (), ("mlx5_0",))
    up, down = (hca("mlx5_0", entry).ports[0] for entry in ("ACTIVE", "DOWN"))
    both = replace(hca("mlx5_0"), ports=(up, replace(down, number=2)))

    assert view(HostFacts((function(),), (), (both,)), recorded).unhealthy == unhealthy


def test_vanished_hardware_of_a_pod_is_published_and_tainted() -> None:
    found = view(HostFacts(), RECORDED)

    assert [(device.name, device.taints[0].value) for device in found.resources.devices] == [
        (PCI, VANISHED)
    ]
    assert found.health[0].healthy is False
    assert found.health[0].message == f"Vanished: {EXPLANATIONS[VANISHED]}"


@pytest.mark.parametrize("driver", ["", "vfio-pci"])
def test_hardware_of_a_pod_without_a_driver_is_published_and_tainted(driver: str) -> None:
    function_alone = HostFacts((replace(function(), driver=driver),))

    found = view(function_alone, RECORDED)

    assert found.devices == {PCI: RECORDED}
    assert [(device.name, device.taints[0].value) for device in found.resources.devices] == [
        (PCI, NO_DRIVER)
    ]
    assert found.health[0].healthy is False
    assert found.health[0].message == f"NoDriver: {EXPLANATIONS[NO_DRIVER]}"
    assert found.excluded == ()
    assert view(function_alone).devices == {}, "withdrawn without a record"


def test_missing_rdma_device_of_a_pod_is_reported_as_unhealthy() -> None:
    recorded = Device(PCI, DeviceKey("pci", PF, "", PF), (("dra.net/rdma", True),), ("mlx5_0",))

    found = view(HostFacts((function(),), all_rdma=True), recorded)

    assert found.unhealthy == {PCI: NO_RDMA}
    assert found.health[0] == DeviceHealth(
        NODE, PCI, healthy=False, message=f"NoRDMADevice: {EXPLANATIONS[NO_RDMA]}"
    )


def test_failed_attachment_is_unhealthy_with_the_plugins_message_and_no_taint() -> None:
    choice, failing = (
        DeviceSelection(filter=""),
        {PCI: "device pci-0000-8a-00-0: its RDMA device is gone"},
    )
    facts, failed = HostFacts((function(),)), replace(recorded(RECORDED), failures=failing)

    found = snapshot_of(NODE, facts, failed, choice)
    gone = snapshot_of(NODE, HostFacts(), failed, choice)

    assert found.health == (DeviceHealth(NODE, PCI, healthy=False, message=failing[PCI]),)
    assert found.resources.devices[0].taints == ()
    assert gone.health[0].message == f"Vanished: {EXPLANATIONS[VANISHED]}", (
        "an observed fault takes precedence"
    )


def test_vanished_hardware_without_a_record_is_withdrawn() -> None:
    assert view(HostFacts()).devices == {}


def test_a_nic_without_a_carrier_is_tainted() -> None:
    found = view(HostFacts((function(),), (nic("eth1", carrier=False),)))

    assert found.unhealthy == {PCI: NO_CARRIER}
    assert [taint.value for taint in found.resources.devices[0].taints] == [NO_CARRIER]
    assert found.health[0] == DeviceHealth(
        NODE, PCI, healthy=False, message="NoCarrier: its link is up without carrier"
    )


def test_pf_and_its_vf_share_one_counter() -> None:
    facts = HostFacts((function(), function(VF, PF)), (nic("eth1"), nic("eth1v0", VF)))

    found = view(facts)
    pf, vf = sorted(found.allocatable)

    assert len(found.resources.counters) == 1
    assert found.conflicts == {pf: frozenset({vf}), vf: frozenset({pf})}


# --------------------------------------------------------------------------- selection


def test_filter_applies_to_devices_in_pods() -> None:
    choice = DeviceSelection(filter='attributes["dra.net/mtu"].IntValue < 9000')

    found = view(HostFacts((function(),)), RECORDED, choice=choice)

    assert found.devices == {}
    assert found.excluded == ((PCI, "dropped by --filter"),)


@pytest.mark.parametrize(
    "choice",
    [
        DeviceSelection(filter="false"),
        DeviceSelection(filter="", include=("zzz",)),
        DeviceSelection(filter="", exclude=("eth1",)),
    ],
    ids=["filter", "include", "exclude"],
)
def test_device_dropped_by_a_flag_can_be_prepared(choice: DeviceSelection) -> None:
    found = view(HostFacts((function(),), (nic("eth1"),)), choice=choice)

    assert found.devices == {}
    assert found.allocatable[PCI].key.name == "eth1"


def test_unsafe_device_cannot_be_prepared() -> None:
    uplink = virtual("a", "b")
    index = uplink.netdevs[0].link.index
    facts = replace(uplink, default_routes=(DefaultRoute(4, 0, (index,)),))
    unbound = HostFacts((replace(function(), driver="vfio-pci"),))

    assert list(view(facts).allocatable) == ["b"]
    assert view(unbound).allocatable == {}


def test_device_held_by_a_pod_can_be_prepared() -> None:
    assert view(HostFacts((function(),)), RECORDED).allocatable[PCI].key.name == "eth1"


def test_veths_are_dropped_by_the_default_filter() -> None:
    facts = HostFacts(netdevs=(NetDevice(Link(9, "eth9", kind="veth"), virtual=True),))

    assert view(facts, choice=DeviceSelection()).devices == {}
    assert list(view(facts).devices) == ["eth9"]


def test_shared_expression_marks_devices_as_shared() -> None:
    choice = DeviceSelection(filter="", shared='attributes["dra.net/ifName"].StringValue == "a"')

    found = view(virtual("a", "b"), choice=choice)

    assert [(device.name, device.shared) for device in found.resources.devices] == [
        ("a", True),
        ("b", False),
    ]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("eth1", [PCI]),
        ("pci-*", [PCI]),
        ("0000:8a:*", [PCI]),
        ("mlx5_[0-3]", [PCI]),
        ("a?", []),
        ("", []),
    ],
)
def test_device_is_included_by_any_of_its_names(pattern: str, names: list[str]) -> None:
    facts = HostFacts((function(),), (nic("eth1"), *virtual("a").netdevs), (hca("mlx5_0"),))

    found = view(facts, choice=DeviceSelection(filter="", include=("zzz", pattern)))

    assert list(found.devices) == names
    assert ("a", "dropped by --include") in found.excluded


def test_exclude_takes_precedence_over_include() -> None:
    choice = DeviceSelection(filter="", include=("*",), exclude=("x", "b*"))

    found = view(virtual("a", "b1"), choice=choice)

    assert list(found.devices) == ["a"]
    assert [device.name for device in found.resources.devices] == ["a"]
    assert [state.device for state in found.health] == ["a"]
    assert found.excluded == (("b1", "dropped by --exclude b*"),)


def test_patterns_are_case_sensitive() -> None:
    assert list(view(virtual("a"), choice=DeviceSelection(filter="", exclude=("A",))).devices) == [
        "a"
    ]


def test_unsafe_device_cannot_be_included() -> None:
    facts = virtual("a", "b")
    uplink = facts.netdevs[0].link.index
    facts = HostFacts(facts.functions, facts.netdevs, (), (DefaultRoute(4, 0, (uplink,)),))

    found = view(facts, choice=DeviceSelection(filter="", include=("a",)))

    assert found.devices == {}
    assert dict(found.excluded)["a"] == "the node's default route goes through it"


@pytest.mark.parametrize(
    ("name", "device"),
    [
        (f"{PCI}-p1", NetDevice(Link(5, "e1", bus="pci", parent=PF), pci=PF, dev_port=1)),
        ("eth1s0", NetDevice(Link(4, "eth1s0", bus="auxiliary", parent="mlx5_core.sf.2"), pci=PF)),
        ("eth0", NetDevice(Link(4, "eth0", bus="vmbus", parent="f8b3"))),
        ("siw0", RdmaDeviceFacts("siw0")),
    ],
    ids=["port", "subfunction", "synthetic", "rdma-alone"],
)
def test_hardware_is_distinguished_from_virtual_devices_of_pods(
    name: str, device: NetDevice | RdmaDeviceFacts
) -> None:
    veth = NetDevice(Link(9, "eth9", kind="veth"), virtual=True)
    representor = NetDevice(Link(8, "eth1r0", bus="pci", parent=PF), pci=PF, port_name="pf0vf0")
    netdevs = (device,) if isinstance(device, NetDevice) else ()
    rdma = (device,) if isinstance(device, RdmaDeviceFacts) else ()
    facts = HostFacts((function(),), (nic("eth1"), *netdevs, veth, representor), rdma)

    found = view(facts, choice=DeviceSelection(filter="false"))

    assert name in dict(found.excluded)
    assert found.hardware == {PCI, name}
    assert found.dropped == {"dropped by --filter": 1}


def test_virtual_device_with_rdma_counts_as_hardware() -> None:
    recorded = Device("dummy0", DeviceKey("", "", "dummy0"), rdma_devices=("siw0",))

    found = view(HostFacts(), recorded, choice=DeviceSelection(filter="", exclude=("dummy*",)))

    assert found.hardware == {"dummy0"}
    assert not found.dropped


def test_only_devices_dropped_by_a_flag_are_counted_as_dropped() -> None:
    facts = virtual("cni0", "a", "b", "c")

    found = view(facts, choice=DeviceSelection(filter="", exclude=("a",), include=("b",)))

    assert found.dropped == {"dropped by --exclude a": 1, "dropped by --include": 1}
    assert len(found.excluded) == 3


@pytest.mark.parametrize(
    "choice", [DeviceSelection(filter="("), DeviceSelection(shared="device.x(")]
)
def test_invalid_expression_is_refused_by_the_check(
    choice: DeviceSelection,
) -> None:
    with pytest.raises(SelectorError):
        choice.check()


def test_valid_expression_is_accepted_by_the_check() -> None:
    DeviceSelection(shared="true").check()


@pytest.mark.parametrize(("lists", "published"), [(True, (1, 0)), (False, 1)])
def test_numa_node_is_published_as_a_list_if_lists_are_enabled(
    *, lists: bool, published: object
) -> None:
    placed = replace(function(), numa_node=1)
    facts = HostFacts((placed,), (nic("eth1"),), numa_nodes=2, numa_near=((0, 1), (1, 0)))

    found = view(facts, choice=replace(ALL, numa_lists=lists))

    (slice_device,) = found.resources.devices
    assert slice_device.attribute(NUMA_NODE) == published
    assert found.devices[PCI].attribute(NUMA_NODE) == 1


def test_ipoib_interface_that_is_not_moved_leaves_an_rdma_only_device() -> None:
    parent, child = nic("ib0"), NetDevice(Link(9, "ib0.8001", "ipoib", ARPHRD_INFINIBAND))
    parent = replace(parent, link=replace(parent.link, arphrd=ARPHRD_INFINIBAND))
    facts = HostFacts((function(),), (parent, child), (hca("mlx5_0"),))

    found = view(facts, choice=DeviceSelection(filter="", move_ipoib=False))

    assert list(found.devices) == [PCI]
    device = found.devices[PCI]
    assert (device.key, device.rdma_devices) == (DeviceKey("pci", PF, "", PF), ("mlx5_0",))
    assert device.attribute("dra.net/ifName") is None
    assert device.attribute("dra.net/rdmaDeviceShared") is None
    assert found.unhealthy == {}
    excluded = dict(found.excluded)
    assert {name: reason.split(",")[0] for name, reason in excluded.items()} == {
        "ib0": "ib0: an IPoIB interface",
        "net-nfrdalrygaydc": "ib0.8001: an IPoIB interface",
    }
    assert view(facts).devices[PCI].key.name == "ib0"
