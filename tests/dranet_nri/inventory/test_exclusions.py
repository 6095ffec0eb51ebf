"""Links that are not published, each with a reason."""

from dataclasses import replace

import pytest

from dranet_nri.inventory import hazards, inventory_from_facts
from dranet_nri.inventory.exclusions import function_hazard, link_hazard, uplink_tree
from dranet_nri.inventory.host_facts import HostFacts, NetDevice, PciFunction
from dranet_nri.model import Address, Link
from tests.dranet_nri.inventory.parts import PF, VF, function, nic, virtual


def excluded(links: list[Link], *roots: str) -> set[str]:
    """Names that uplink_tree excludes when the named links are the uplinks."""
    names = {link.index: link.name for link in links}
    devices = [NetDevice(link) for link in links]
    tree = uplink_tree(devices, {link.index: "uplink" for link in links if link.name in roots})
    return {names[index] for index in tree}


VLAN_ON_BOND = [
    Link(1, "eth0", master=3),
    Link(2, "eth1", master=3),
    Link(3, "bond0", kind="bond"),
    Link(4, "bond0.100", kind="vlan", lower=3),
    Link(5, "bond0.200", kind="vlan", lower=3),
    Link(6, "eth2"),
    Link(7, "mv0", kind="macvlan", lower=4),
    Link(8, "mv0.5", kind="vlan", lower=7),
]


def test_vlan_uplink_excludes_all_links_below_and_above_it() -> None:
    assert excluded(VLAN_ON_BOND, "bond0.100") == {
        "bond0.100",
        "bond0",
        "eth0",
        "eth1",
        "mv0",
        "mv0.5",
    }


def test_sibling_on_the_same_bond_and_an_unrelated_nic_are_available() -> None:
    assert not excluded(VLAN_ON_BOND, "bond0.100") & {"bond0.200", "eth2"}


def test_bridge_uplink_excludes_its_ports_down_to_the_nic() -> None:
    links = [
        Link(1, "eth0"),
        Link(2, "eth0.7", kind="vlan", lower=1, master=3),
        Link(3, "br0", kind="bridge"),
        Link(4, "eth1"),
    ]

    assert excluded(links, "br0") == {"br0", "eth0.7", "eth0"}


def test_master_above_an_uplink_is_excluded() -> None:
    links = [Link(1, "eth0", master=2), Link(2, "vrf0", kind="vrf"), Link(3, "eth1")]

    assert excluded(links, "eth0") == {"eth0", "vrf0"}


def test_bridge_above_a_child_of_the_uplink_does_not_exclude_its_other_ports() -> None:
    links = [
        Link(1, "eth0"),
        Link(2, "mv0", kind="macvlan", lower=1, master=3),
        Link(3, "br1", kind="bridge"),
        Link(4, "eth5", master=3),
        Link(5, "eth6"),
    ]

    assert excluded(links, "eth0") == {"eth0", "mv0", "br1"}


def test_veth_uplink_excludes_the_bridge_of_its_peer_and_the_nic() -> None:
    links = [
        Link(1, "eth0"),
        Link(2, "eth0.9", kind="vlan", lower=1, master=4),
        Link(3, "vnode", kind="veth", lower=5),
        Link(4, "br0", kind="bridge"),
        Link(5, "vport", kind="veth", lower=3, master=4),
        Link(6, "eth1"),
    ]

    assert excluded(links, "vnode") == {"vnode", "vport", "br0", "eth0.9", "eth0"}


def test_veth_uplink_with_a_peer_in_another_namespace_excludes_only_itself() -> None:
    links = [Link(1, "eth0"), Link(2, "vnode", kind="veth", lower=0)]

    assert excluded(links, "vnode") == {"vnode"}


def test_open_vswitch_uplink_excludes_the_datapath_and_the_nic() -> None:
    links = [
        Link(1, "eth0"),
        Link(2, "eth0.9", kind="vlan", lower=1, master=3),
        Link(3, "ovs-system", kind="openvswitch"),
        Link(4, "br-ex", kind="openvswitch"),
        Link(5, "eth1"),
    ]

    assert excluded(links, "br-ex") == {"br-ex", "ovs-system", "eth0.9", "eth0"}


def test_all_lower_links_of_an_uplink_are_excluded() -> None:
    ring = replace(virtual("prp0", 9, "hsr", lower=3), also_lower=(4, 5))
    devices = [*(nic(f"eth{index}", index) for index in (3, 4, 5, 6)), ring]

    assert uplink_tree(devices, {9: "routed"}).keys() == {3, 4, 5, 9}
    assert uplink_tree(devices, {4: "routed"}).keys() == {4, 9}


def test_exclusion_reason_names_the_uplink_and_the_direction() -> None:
    devices = [NetDevice(link) for link in VLAN_ON_BOND]
    tree = uplink_tree(devices, {4: "the node's default route goes through it"})

    assert tree[4] == "the node's default route goes through it"
    assert tree[1] == "carries the uplink bond0.100"
    assert tree[8] == "depends on the uplink bond0.100"


@pytest.mark.parametrize(
    ("device", "reason"),
    [
        pytest.param(NetDevice(Link(1, "lo", loopback=True)), "loopback", id="loopback"),
        pytest.param(NetDevice(Link(1, "cilium_net")), "belongs to Cilium", id="exact-name"),
        pytest.param(NetDevice(Link(1, "docker0")), "belongs to Docker", id="docker"),
        pytest.param(NetDevice(Link(1, "flannel.1")), "belongs to Flannel", id="prefix"),
        pytest.param(NetDevice(Link(1, "cali0ab")), "belongs to Calico", id="calico"),
        pytest.param(NetDevice(Link(1, "lxc_health")), "belongs to Cilium", id="lxc"),
        pytest.param(NetDevice(Link(1, "eth1", master=10)), "enslaved to bond0", id="slave"),
        pytest.param(NetDevice(Link(1, "eth1", master=99)), "enslaved", id="slave-of-unseen"),
        pytest.param(
            NetDevice(Link(1, "enP1", master=11)),
            "the VF behind eth0: Hyper-V shows one NIC as two",
            id="netvsc-vf",
        ),
        *(
            pytest.param(
                NetDevice(Link(1, "eth2", bus="pci"), port_name=name),
                f"represents {name} in the NIC's embedded switch",
                id=f"representor-{name}",
            )
            for name in ("pf0vf3", "c1pf0sf88", "pf1hpf", "c1pf0", "p0pf0vf3", "pf0s1")
        ),
        pytest.param(
            NetDevice(Link(5, "br7", kind="bridge")), "a bridge with ports", id="bridge-with-ports"
        ),
        pytest.param(
            NetDevice(Link(6, "br8", kind="bridge")),
            "the kernel does not let it leave its network namespace",
            id="empty-bridge",
        ),
        pytest.param(
            NetDevice(Link(6, "eth9"), unreadable="EBADMSG"),
            "its kernel facts cannot be read: EBADMSG",
            id="unreadable",
        ),
        pytest.param(
            NetDevice(Link(6, "wlan0"), pinned=True),
            "the kernel does not let it leave its network namespace",
            id="pinned",
        ),
        pytest.param(
            NetDevice(Link(6, "bat0", kind="batadv")),
            "the kernel does not let it leave its network namespace",
            id="mesh",
        ),
        pytest.param(NetDevice(Link(1, "eth2"), port_name="p0"), "", id="physical-port"),
        pytest.param(NetDevice(Link(1, "dummy0", kind="dummy")), "", id="dummy"),
        pytest.param(NetDevice(Link(1, "eth3", master=12)), "", id="port-of-a-VRF"),
        pytest.param(NetDevice(Link(1, "veth1", kind="veth")), "", id="veth"),
    ],
)
def test_link_that_cannot_be_given_to_a_pod_has_a_reason(device: NetDevice, reason: str) -> None:
    links = {
        10: Link(10, "bond0"),
        11: Link(11, "eth0", bus="vmbus"),
        12: Link(12, "vrf0", kind="vrf"),
    }

    assert link_hazard(device, links, frozenset({5, 10, 11})) == reason


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        ("", "no driver is bound"),
        ("vfio-pci", "bound to vfio-pci for userspace"),
        ("uio_pci_generic", "bound to uio_pci_generic for userspace"),
        ("igb_uio", "bound to igb_uio for userspace"),
        ("pci-stub", "bound to pci-stub for userspace"),
        ("mlx5_core", ""),
    ],
)
def test_function_without_a_net_device_by_design_has_a_reason(driver: str, reason: str) -> None:
    assert function_hazard(PciFunction("0000:01:00.0", driver)) == reason


def test_virtual_nic_with_a_temporary_name_is_excluded() -> None:
    facts = HostFacts((function(VF),), (nic("dra3", 3, VF), virtual("dra4", 4, "veth")))

    shown = inventory_from_facts(facts)

    assert [device.name for device in shown.devices] == ["pci-0000-8a-00-1"]
    assert shown.excluded == (
        ("dra4", "returned from a pod with a temporary name, see dranet-nri status"),
    )


def vlan(name: str, index: int, lower: int, **rest: object) -> NetDevice:
    return replace(virtual(name, index, "vlan", lower=lower, **rest), addresses=(LINK_LOCAL,))


LINK_LOCAL = Address("fe80::5/64", scope=253)
LEASE = Address("2001:db8::5/64", valid_s=600)


@pytest.mark.parametrize(
    ("above", "reason"),
    [
        pytest.param((vlan("vlan7", 9, 3),), "", id="unused"),
        pytest.param((replace(vlan("vlan7", 9, 3), addresses=(LEASE,)),), "vlan7", id="addressed"),
        pytest.param((vlan("vlan7", 9, 3, master=2),), "vlan7", id="enslaved"),
        pytest.param(
            (vlan("vlan7", 9, 3), replace(vlan("inner", 10, 9), addresses=(LEASE,))),
            "inner",
            id="a VLAN on it is",
        ),
        pytest.param((replace(vlan("vlan7", 9, 2), addresses=(LEASE,)),), "", id="another NIC's"),
    ],
)
def test_nic_below_a_vlan_with_host_addresses_is_excluded(
    above: tuple[NetDevice, ...], reason: str
) -> None:
    facts = HostFacts((function(VF),), (nic("eth1", 3, VF), *above))

    reported = dict(inventory_from_facts(facts).excluded).get("pci-0000-8a-00-1", "")

    expected = f"eth1: carries {reason}, a VLAN that the host uses: its routes and"
    assert reported.startswith(expected) if reason else not reported


@pytest.mark.parametrize(
    ("address", "parent", "index", "reason"),
    [
        pytest.param(LINK_LOCAL, VF, 3, "", id="unused"),
        pytest.param(
            LEASE, VF, 3, "carries ib1.8001, an IPoIB child that the host uses", id="used"
        ),
        pytest.param(LEASE, VF, 4, "", id="its parent is in a pod"),
        pytest.param(LEASE, PF, 3, "", id="its parent in a pod has this index"),
    ],
)
def test_nic_below_an_ipoib_child_with_host_addresses_is_excluded(
    address: Address, parent: str, index: int, reason: str
) -> None:
    child = replace(nic("ib1.8001", 9, parent), addresses=(address,))
    child = replace(child, link=replace(child.link, kind="ipoib", lower=index))
    facts = HostFacts((function(VF),), (nic("ib1", 3, VF), child))

    assert hazards(facts).get(3, "").startswith(reason)
    assert (3 in hazards(facts)) is bool(reason)


@pytest.mark.parametrize(
    ("above", "reason"),
    [
        *(
            pytest.param(
                (virtual("up7", 9, kind, lower=3),),
                f"carries up7, {article} {kind} link, which loses its network when the NIC leaves",
                id=kind,
            )
            for article, kind in (
                ("a", "macvlan"),
                ("a", "macvtap"),
                ("an", "ipvlan"),
                ("an", "ipvtap"),
                ("a", "gre"),
            )
        ),
        *(
            pytest.param(
                (virtual("up7", 9, kind, lower=3),),
                "carries up7, which the kernel deletes when it leaves",
                id=kind,
            )
            for kind in ("amt", "macsec", "vxlan")
        ),
        pytest.param(
            (virtual("up7", 9, "", lower=3),),
            "carries up7, which loses its network when the NIC leaves",
            id="of no kind",
        ),
        pytest.param(
            (vlan("vlan7", 9, 3), virtual("mac7", 10, "macvlan", lower=9)),
            "carries mac7, a macvlan link, which loses its network when the NIC leaves",
            id="on an unused VLAN",
        ),
        pytest.param(
            (replace(vlan("vlan7", 9, 3), foreign_upper_kinds=("macvlan",)),),
            "carries a macvlan link of another network namespace, maybe a pod's, which loses its",
            id="elsewhere, on an unused VLAN",
        ),
        pytest.param(
            (replace(virtual("hsr7", 9, "hsr", lower=2), also_lower=(3,)),),
            "carries hsr7, a hsr link, which loses its network when the NIC leaves",
            id="its second lower link",
        ),
        pytest.param((virtual("up7", 9, "veth", lower=3),), "", id="the other end of a pair"),
        pytest.param((virtual("ib0.8001", 9, "ipoib", lower=3),), "", id="an IPoIB child"),
        pytest.param((virtual("up7", 9, "macvlan", lower=2),), "", id="another NIC's"),
        pytest.param((vlan("a", 9, 10), vlan("b", 10, 9)), "", id="a circle"),
    ],
)
def test_nic_whose_move_would_disconnect_other_links_is_excluded(
    above: tuple[NetDevice, ...], reason: str
) -> None:
    facts = HostFacts((function(VF),), (nic("eth1", 3, VF), *above))

    reported = dict(inventory_from_facts(facts).excluded).get("pci-0000-8a-00-1", "")

    assert reported.startswith(f"eth1: {reason}") if reason else not reported


def test_nic_below_a_link_of_another_namespace_is_excluded() -> None:
    carrier = replace(nic("eth1", 3, VF), foreign_upper_kinds=("ipvlan", "vlan"))

    (_, reported), *_ = inventory_from_facts(HostFacts((function(VF),), (carrier,))).excluded

    assert reported.startswith("eth1: carries an ipvlan link of another network namespace")
