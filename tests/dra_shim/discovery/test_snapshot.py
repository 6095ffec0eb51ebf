"""What is offered: what is there or in a pod, less what is unsafe, less what nobody wants."""

from dataclasses import replace

import pytest

from dra_shim.cel import SelectorError
from dra_shim.discovery.snapshot import (
    AWAY,
    WORDS,
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


def view(facts: HostFacts, *known: Device, choice: DeviceSelection = ALL) -> NodeSnapshot:
    return snapshot_of(NODE, facts, known, choice)


def virtual(*names: str) -> HostFacts:
    host = FakeHost()
    for name in names:
        host.add_nic(name)
    return host.facts


def hca(name: str, state: str = "ACTIVE") -> RdmaDeviceFacts:
    return RdmaDeviceFacts(
        name, "pci", PF, PF, ports=(RdmaPortFacts(1, state, link_layer="InfiniBand"),)
    )


HELD = Device(
    PCI,
    DeviceKey("pci", PF, "eth1", PF),
    (("dra.net/ifName", "eth1"), ("dra.net/mtu", 9000)),
)


def test_what_is_there_is_offered_by_name() -> None:
    found = view(virtual("b", "a"))

    assert list(found.devices) == ["a", "b"]
    assert [device.name for device in found.resources.offers] == ["a", "b"]
    assert {device.pool for device in found.resources.offers} == {NODE}
    assert found.health == tuple(DeviceHealth(NODE, name, healthy=True) for name in "ab")
    assert found.unhealthy == {}


def test_nothing_is_a_view_too() -> None:
    assert view(HostFacts()) == NodeSnapshot()


def test_rdma_devices_are_counted() -> None:
    facts = HostFacts((function(),), (nic("ib0", up=False),), (hca("mlx5_0"),))

    assert view(facts).rdma == 1
    assert view(virtual("a")).rdma == 0


# --------------------------------------------------------------------------- in pods


def test_a_device_in_a_pod_keeps_its_last_facts_and_nobody_knows_how_it_is() -> None:
    found = view(HostFacts((function(),)), HELD)

    assert found.devices[PCI].attribute("dra.net/mtu") == 9000
    assert found.devices[PCI].attribute("dra.net/pciAddress") == PF
    assert found.health == (DeviceHealth(NODE, PCI, healthy=None, message=AWAY),)
    assert found.resources.offers[0].taints == ()


def test_a_virtual_device_in_a_pod_is_offered_though_nothing_of_it_is_here() -> None:
    held = Device("mv0", DeviceKey("", "", "mv0"), (("dra.net/ifName", "mv0"),))

    found = view(HostFacts(), held)

    assert found.devices == {"mv0": held}
    assert found.health[0].healthy is None


def test_a_device_that_is_recorded_and_still_here_is_as_it_is_here() -> None:
    found = view(HostFacts((function(),), (nic("eth1"),)), HELD)

    assert found.devices[PCI].attribute("dra.net/mtu") == 1500
    assert found.health == (DeviceHealth(NODE, PCI, healthy=True),)


def test_an_rdma_device_that_stays_on_the_host_tells_how_it_is() -> None:
    held = Device(PCI, DeviceKey("pci", PF, "ib0", PF), (), ("mlx5_0",))
    facts = HostFacts((function(),), (), (hca("mlx5_0", "DOWN"),))

    assert view(facts, held).unhealthy == {PCI: PORT_DOWN}
    assert view(HostFacts((function(),), (), (hca("mlx5_0"),)), held).health[0].healthy is True


def test_only_functions_are_remembered_with_the_rdma_device_that_they_had() -> None:
    software = Device("dummy0", DeviceKey("", "", "dummy0"), rdma_devices=("rxe0",))
    facts = HostFacts((function(),), (nic("eth1"),))
    had = replace(view(facts).allocatable[PCI], rdma_devices=("mlx5_0",))

    assert with_rdma((had, HELD, software)) == {PCI: had}
    found = snapshot_of(NODE, facts, (), ALL, had_rdma=with_rdma((had,)))
    assert found.allocatable == {PCI: had}
    assert found.unhealthy == {PCI: NO_RDMA}
    renamed = replace(had, key=replace(had.key, name="eth7"))
    assert snapshot_of(NODE, facts, (), ALL, had_rdma={PCI: renamed}).unhealthy == {}


@pytest.mark.parametrize(("port", "ill"), [(0, {}), (1, {PCI: PORT_DOWN})])
def test_of_two_infiniband_ports_each_has_its_own_state(port: int, ill: dict[str, str]) -> None:
    held = Device(PCI, DeviceKey("pci", PF, "ib0", PF, port=port), (), ("mlx5_0",))
    up, down = (hca("mlx5_0", entry).ports[0] for entry in ("ACTIVE", "DOWN"))
    both = replace(hca("mlx5_0"), ports=(up, replace(down, number=2)))

    assert view(HostFacts((function(),), (), (both,)), held).unhealthy == ill


def test_hardware_that_vanished_from_under_a_pod_stays_and_is_tainted() -> None:
    found = view(HostFacts(), HELD)

    assert [(device.name, device.taints[0].value) for device in found.resources.offers] == [
        (PCI, VANISHED)
    ]
    assert found.health[0].healthy is False
    assert found.health[0].message == f"Vanished: {WORDS[VANISHED]}"


@pytest.mark.parametrize("driver", ["", "vfio-pci"])
def test_hardware_whose_driver_is_gone_from_under_a_pod_stays_and_is_tainted(driver: str) -> None:
    bare = HostFacts((replace(function(), driver=driver),))

    found = view(bare, HELD)

    assert found.devices == {PCI: HELD}
    assert [(device.name, device.taints[0].value) for device in found.resources.offers] == [
        (PCI, NO_DRIVER)
    ]
    assert found.health[0].healthy is False
    assert found.health[0].message == f"NoDriver: {WORDS[NO_DRIVER]}"
    assert found.excluded == ()
    assert view(bare).devices == {}, "nobody's is offered no longer"


def test_an_rdma_device_that_is_gone_from_under_a_pod_is_told() -> None:
    held = Device(PCI, DeviceKey("pci", PF, "", PF), (("dra.net/rdma", True),), ("mlx5_0",))

    found = view(HostFacts((function(),), all_rdma=True), held)

    assert found.unhealthy == {PCI: NO_RDMA}
    assert found.health[0] == DeviceHealth(
        NODE, PCI, healthy=False, message=f"NoRDMADevice: {WORDS[NO_RDMA]}"
    )


def test_what_the_plugin_cannot_bring_into_its_pod_is_told_in_its_words_and_not_tainted() -> None:
    choice, failing = (
        DeviceSelection(filter=""),
        {PCI: "device pci-0000-8a-00-0: its RDMA device is gone"},
    )
    facts = HostFacts((function(),))

    found = snapshot_of(NODE, facts, (HELD,), choice, failing=failing)
    gone = snapshot_of(NODE, HostFacts(), (HELD,), choice, failing=failing)

    assert found.health == (DeviceHealth(NODE, PCI, healthy=False, message=failing[PCI]),)
    assert found.resources.offers[0].taints == ()
    assert gone.health[0].message == f"Vanished: {WORDS[VANISHED]}", "what is seen counts first"


def test_hardware_that_vanished_and_is_nobodys_is_offered_no_longer() -> None:
    assert view(HostFacts()).devices == {}


def test_a_nic_without_a_carrier_is_tainted() -> None:
    found = view(HostFacts((function(),), (nic("eth1", carrier=False),)))

    assert found.unhealthy == {PCI: NO_CARRIER}
    assert [taint.value for taint in found.resources.offers[0].taints] == [NO_CARRIER]
    assert found.health[0] == DeviceHealth(
        NODE, PCI, healthy=False, message="NoCarrier: its link is up without carrier"
    )


def test_a_pf_and_its_vf_draw_on_one_counter() -> None:
    facts = HostFacts((function(), function(VF, PF)), (nic("eth1"), nic("eth1v0", VF)))

    found = view(facts)
    pf, vf = sorted(found.allocatable)

    assert len(found.resources.counters) == 1
    assert found.conflicts == {pf: frozenset({vf}), vf: frozenset({pf})}


# --------------------------------------------------------------------------- what is wanted


def test_the_filter_is_held_against_devices_in_pods_too() -> None:
    choice = DeviceSelection(filter='attributes["dra.net/mtu"].IntValue < 9000')

    found = view(HostFacts((function(),)), HELD, choice=choice)

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
def test_what_is_not_offered_can_be_prepared_all_the_same(choice: DeviceSelection) -> None:
    found = view(HostFacts((function(),), (nic("eth1"),)), choice=choice)

    assert found.devices == {}
    assert found.allocatable[PCI].key.name == "eth1"


def test_what_is_unsafe_cannot_be_prepared_either() -> None:
    uplink = virtual("a", "b")
    index = uplink.netdevs[0].link.index
    facts = replace(uplink, default_routes=(DefaultRoute(4, 0, (index,)),))
    unbound = HostFacts((replace(function(), driver="vfio-pci"),))

    assert list(view(facts).allocatable) == ["b"]
    assert view(unbound).allocatable == {}


def test_what_a_pod_holds_is_there() -> None:
    assert view(HostFacts((function(),)), HELD).allocatable[PCI].key.name == "eth1"


def test_veths_are_not_offered_unless_they_are_asked_for() -> None:
    facts = HostFacts(netdevs=(NetDevice(Link(9, "eth9", kind="veth"), virtual=True),))

    assert view(facts, choice=DeviceSelection()).devices == {}
    assert list(view(facts).devices) == ["eth9"]


def test_shared_devices_are_offered_to_several() -> None:
    choice = DeviceSelection(filter="", shared='attributes["dra.net/ifName"].StringValue == "a"')

    found = view(virtual("a", "b"), choice=choice)

    assert [(device.name, device.shared) for device in found.resources.offers] == [
        ("a", True),
        ("b", False),
    ]


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        ("eth1", [PCI]),
        ("pci-*", [PCI]),
        ("0000:8a:*", [PCI]),
        ("mlx5_[0-3]", [PCI]),
        ("a?", []),
        ("", []),
    ],
)
def test_a_device_is_included_by_any_of_its_names(pattern: str, kept: list[str]) -> None:
    facts = HostFacts((function(),), (nic("eth1"), *virtual("a").netdevs), (hca("mlx5_0"),))

    found = view(facts, choice=DeviceSelection(filter="", include=("zzz", pattern)))

    assert list(found.devices) == kept
    assert ("a", "dropped by --include") in found.excluded


def test_what_is_excluded_stays_out_also_when_it_is_included() -> None:
    choice = DeviceSelection(filter="", include=("*",), exclude=("x", "b*"))

    found = view(virtual("a", "b1"), choice=choice)

    assert list(found.devices) == ["a"]
    assert [device.name for device in found.resources.offers] == ["a"]
    assert [state.device for state in found.health] == ["a"]
    assert found.excluded == (("b1", "dropped by --exclude b*"),)


def test_patterns_tell_upper_from_lower_case() -> None:
    assert list(view(virtual("a"), choice=DeviceSelection(filter="", exclude=("A",))).devices) == [
        "a"
    ]


def test_what_is_unsafe_cannot_be_included() -> None:
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
def test_hardware_is_told_from_what_comes_and_goes_with_pods(
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


def test_a_virtual_device_with_rdma_is_named_like_hardware() -> None:
    held = Device("dummy0", DeviceKey("", "", "dummy0"), rdma_devices=("siw0",))

    found = view(HostFacts(), held, choice=DeviceSelection(filter="", exclude=("dummy*",)))

    assert found.hardware == {"dummy0"}
    assert not found.dropped


def test_what_no_flag_dropped_is_not_counted_among_the_dropped() -> None:
    facts = virtual("cni0", "a", "b", "c")

    found = view(facts, choice=DeviceSelection(filter="", exclude=("a",), include=("b",)))

    assert found.dropped == {"dropped by --exclude a": 1, "dropped by --include": 1}
    assert len(found.excluded) == 3


@pytest.mark.parametrize(
    "choice", [DeviceSelection(filter="("), DeviceSelection(shared="device.x(")]
)
def test_an_expression_that_is_none_is_refused_before_anything_is_seen(
    choice: DeviceSelection,
) -> None:
    with pytest.raises(SelectorError):
        choice.check()


def test_good_expressions_pass() -> None:
    DeviceSelection(shared="true").check()


@pytest.mark.parametrize(("lists", "published"), [(True, (1, 0)), (False, 1)])
def test_a_numa_node_is_a_list_where_lists_are_wanted(lists: bool, published: object) -> None:  # noqa: FBT001
    placed = replace(function(), numa_node=1)
    facts = HostFacts((placed,), (nic("eth1"),), numa_nodes=2, numa_near=((0, 1), (1, 0)))

    found = view(facts, choice=replace(ALL, numa_lists=lists))

    (offer,) = found.resources.offers
    assert offer.attribute(NUMA_NODE) == published
    assert found.devices[PCI].attribute(NUMA_NODE) == 1


def test_an_ipoib_interface_that_stays_leaves_its_device_to_rdma() -> None:
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
    assert {name: why.split(",")[0] for name, why in excluded.items()} == {
        "ib0": "ib0: an IPoIB interface",
        "net-nfrdalrygaydc": "ib0.8001: an IPoIB interface",
    }
    assert view(facts).devices[PCI].key.name == "ib0"
