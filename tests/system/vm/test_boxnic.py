"""The NICs without hardware have the addresses, the wire and the links of SR-IOV NICs."""

import errno

from tests.box.boxnic import (
    BROADCAST,
    Frame,
    Function,
    Listener,
    ethtool,
    physical_functions,
    promiscuous,
    refused,
    run,
    send,
    set_vf,
    shown,
    virtual_of,
)
from tests.box.nics import ip

MACHINE = "uml"  # on no other

OTHER_MAC = "02:00:00:00:00:42"
GROUP_MAC = "33:33:00:00:00:42"
VLAN = 42


# ------------------------------------------------------------------- addresses


def test_mac_address_contains_numa_node_nic_and_virtual_function(physical: Function) -> None:
    nics = physical_functions()

    assert [nic.device.resolve().parts[3] for nic in nics] == ["pci0000:40"] * 4 + [
        "pci0000:80"
    ] * 4
    assert [nic.mac() for nic in nics] == [f"52:54:00:00:0{n // 4}:0{n}" for n in range(8)]
    assert [virtual_of(physical, n).mac() for n in (0, 1)] == [
        f"52:54:0{n}:00:01:06" for n in (1, 2)
    ]
    assert [nic.name for nic in nics] == [f"ens{n}" for n in range(1, 9)]
    assert virtual_of(physical, 1).name == "ens7v1"


def test_address_set_by_the_physical_function_survives_a_rebind(
    physical: Function, rebound: Function
) -> None:
    set_vf(physical, "mac", OTHER_MAC)

    rebound.unbind()
    rebound.bind()

    assert rebound.mac() == OTHER_MAC
    assert OTHER_MAC in ethtool("-P", rebound.name)
    assert shown(physical)["address"] == OTHER_MAC


def test_address_set_by_a_virtual_function_does_not_survive_a_rebind(rebound: Function) -> None:
    before = rebound.mac()
    ip("link", "set", rebound.name, "address", OTHER_MAC)
    assert rebound.mac() == OTHER_MAC

    rebound.unbind()
    rebound.bind()

    assert rebound.mac() == before


def test_only_a_trusted_virtual_function_can_change_a_set_address(
    physical: Function, rebound: Function
) -> None:
    set_vf(physical, "mac", "02:00:00:00:00:43")

    with refused(errno.EPERM):
        ip("link", "set", rebound.name, "address", OTHER_MAC)

    set_vf(physical, "trust", "on")
    ip("link", "set", rebound.name, "address", OTHER_MAC)
    assert rebound.mac() == OTHER_MAC


def test_settings_of_a_virtual_function_are_shown(physical: Function, virtual: Function) -> None:
    set_vf(physical, "vlan", str(VLAN), "qos", "3")
    set_vf(physical, "max_tx_rate", "200", "min_tx_rate", "100")
    set_vf(physical, "trust", "on")
    set_vf(physical, "spoofchk", "off")
    set_vf(physical, "state", "disable")

    vf = shown(physical)

    assert (vf["vlan_list"][0]["vlan"], vf["vlan_list"][0]["qos"]) == (VLAN, 3)
    assert vf["rate"] == {"max_tx": 200, "min_tx": 100}
    assert (vf["trust"], vf["spoofchk"], vf["link_state"]) == (True, False, "disable")
    assert shown(physical, 1)["link_state"] == "auto"


# ------------------------------------------------------------------- the wire


def test_port_receives_its_own_frames(physical: Function, far: Function) -> None:
    first, second = virtual_of(physical, 0), virtual_of(physical, 1)
    with Listener(first.name) as listener:
        send(far.name, second.mac(), "another's")
        send(far.name, GROUP_MAC, "a group's")
        send(far.name, first.mac(), "its own")
        send(far.name, BROADCAST, "all")

        assert [listener.next(), listener.next()] == [Frame("its own"), Frame("all")]

        ip("maddr", "add", GROUP_MAC, "dev", first.name)
        send(far.name, GROUP_MAC, "a group's")
        assert listener.next() == Frame("a group's")
        ip("maddr", "del", GROUP_MAC, "dev", first.name)


def test_port_receives_frames_for_the_address_of_a_child(rebound: Function, far: Function) -> None:
    ip("link", "add", "child", "link", rebound.name, "address", OTHER_MAC, "type", "macvlan")
    ip("link", "set", "child", "up")

    with Listener("child") as listener:
        send(far.name, OTHER_MAC, "the child's")

        assert listener.next() == Frame("the child's")


def test_virtual_function_is_promiscuous_only_if_trusted(
    physical: Function, rebound: Function, far: Function
) -> None:
    with promiscuous(rebound), Listener(rebound.name) as listener:
        send(far.name, OTHER_MAC, "untrusted")
        set_vf(physical, "trust", "on")
        send(far.name, OTHER_MAC, "trusted")

        assert listener.next() == Frame("trusted")


def test_virtual_function_sends_only_from_its_own_address(
    physical: Function, virtual: Function, far: Function
) -> None:
    spoofed = virtual.count("tx_spoofed")
    with Listener(far.name) as listener:
        send(virtual.name, far.mac(), "foreign", source=OTHER_MAC)
        assert virtual.count("tx_spoofed") == spoofed + 1
        set_vf(physical, "spoofchk", "off")
        send(virtual.name, far.mac(), "unchecked", source=OTHER_MAC)

        assert listener.next() == Frame("unchecked")


def test_frames_of_a_virtual_function_with_a_vlan_are_tagged_on_the_wire(
    physical: Function, virtual: Function, far: Function
) -> None:
    dropped = virtual.count("tx_vlan_dropped")
    set_vf(physical, "vlan", str(VLAN))
    with promiscuous(far), Listener(far.name) as outside, Listener(virtual.name) as inside:
        send(virtual.name, far.mac(), "tagged twice", vlan=7)
        send(virtual.name, far.mac(), "out")
        assert outside.next() == Frame("out", VLAN)
        assert virtual.count("tx_vlan_dropped") == dropped + 1

        send(far.name, virtual.mac(), "without a tag")
        send(far.name, virtual.mac(), "another's", vlan=VLAN + 1)
        send(far.name, virtual.mac(), "in", vlan=VLAN)
        assert inside.next() == Frame("in")


def test_port_receives_only_its_vlans(rebound: Function, far: Function) -> None:
    with Listener(rebound.name) as listener:
        send(far.name, rebound.mac(), "filtered", vlan=VLAN)
        ethtool("-K", rebound.name, "rx-vlan-filter", "off")
        send(far.name, rebound.mac(), "no filter", vlan=VLAN)
        assert listener.next() == Frame("no filter", VLAN)

    ethtool("-K", rebound.name, "rx-vlan-filter", "on")
    ip("link", "add", "child", "link", rebound.name, "type", "vlan", "id", str(VLAN))
    ip("link", "set", "child", "up")
    with Listener("child") as listener:
        send(far.name, rebound.mac(), "the child's", vlan=VLAN)
        assert listener.next() == Frame("the child's")


def test_lost_frames_are_counted_and_not_delivered(physical: Function, far: Function) -> None:
    before = physical.count("lost")
    with Listener(physical.name) as listener:
        with physical.setting("loss", 1000):
            send(far.name, physical.mac(), "lost on the way in")
            send(physical.name, far.mac(), "lost on the way out")
        send(far.name, physical.mac(), "arrives")

        assert listener.next() == Frame("arrives")
    assert physical.count("lost") >= before + 2


def test_wire_crosses_network_namespaces(
    physical: Function, rebound: Function, far: Function, netns: str
) -> None:
    name = rebound.name
    ip("link", "set", name, "netns", netns)
    ip("-n", netns, "addr", "add", "198.51.100.1/24", "dev", name)
    ip("-n", netns, "link", "set", name, "up")
    ip("addr", "add", "198.51.100.2/24", "dev", far.name)

    run("ip", "netns", "exec", netns, "ping", "-c1", "-w60", "198.51.100.2")

    assert shown(physical)["stats"]["rx"]["packets"] > 0
    ip("addr", "del", "198.51.100.2/24", "dev", far.name)


# ------------------------------------------------------------------- links


def test_link_of_a_virtual_function_follows_the_cable_unless_it_is_set(
    physical: Function, virtual: Function
) -> None:
    def links() -> tuple[bool, bool]:
        return physical.has_carrier(), virtual.has_carrier()

    assert links() == (True, True)
    with physical.setting("carrier", 0):
        assert links() == (False, False)
        set_vf(physical, "state", "enable")
        assert links() == (False, True)
    set_vf(physical, "state", "disable")
    assert links() == (True, False)
    set_vf(physical, "state", "auto")
    assert links() == (True, True)
    with virtual.setting("carrier", 0):
        assert links() == (True, False)


def test_nic_without_a_cable_sends_and_receives_no_frame(
    physical: Function, virtual: Function, far: Function
) -> None:
    second = virtual_of(physical, 1)
    set_vf(physical, "state", "enable")
    set_vf(physical, "state", "enable", number=1)
    with Listener(second.name) as inside, Listener(far.name) as outside:
        with physical.setting("carrier", 0):
            send(virtual.name, far.mac(), "cut")
            send(far.name, second.mac(), "cut")
            send(virtual.name, second.mac(), "within the NIC")
        send(virtual.name, far.mac(), "plugged in")

        assert inside.next() == Frame("within the NIC")
        assert outside.next() == Frame("plugged in")
    set_vf(physical, "state", "auto", number=1)


def test_link_flaps_the_requested_number_of_times(physical: Function, virtual: Function) -> None:
    def losses(function: Function) -> int:
        return int(function.interface("carrier_down_count"))

    before = losses(physical), losses(virtual)

    physical.write("flap", "3 1")

    assert (losses(physical), losses(virtual)) == (before[0] + 3, before[1] + 3)
    assert physical.has_carrier()
