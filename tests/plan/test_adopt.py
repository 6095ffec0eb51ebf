"""A device that is found in a pod without a record."""

from dataclasses import replace

from dranet_nri.model import (
    AllocatedDevice,
    Device,
    DeviceKey,
    InterfaceConfig,
    LinkState,
    NetworkConfig,
    Route,
    RouteConfig,
    Sysctl,
    XdpMode,
    XdpProgram,
)
from dranet_nri.plan.adopt import adopted
from tests.plan.examples import FULL, NIC

PUBLISHED = Device(
    "pci-0000-8a-00-0",
    DeviceKey("pci", "0000:8a:00.0", "eth1"),
    (("dra.net/mac", NIC.mac), ("dra.net/mtu", 1500)),
)


def test_what_was_inherited_goes_back_under_the_published_name() -> None:
    there = replace(FULL, link=replace(NIC, name="net1", mtu=9000, mac="02:00:00:00:77:07"))
    there = replace(there, sysctls=(Sysctl("ipv4", "forwarding", "1"),))

    state = adopted(there, AllocatedDevice("nic", "node", PUBLISHED))

    assert state == replace(FULL, link=replace(NIC, xdp=()), sysctls=(), tcx=())


def test_a_program_that_is_found_is_the_pods() -> None:
    there = replace(NIC, flags=0x1000, group=7, xdp=(XdpProgram(XdpMode.NATIVE, 7),))

    link = adopted(LinkState(there), AllocatedDevice("nic", "node", PUBLISHED)).link

    assert link == replace(there, xdp=())


def test_what_the_claim_gave_is_left_out() -> None:
    config = NetworkConfig(
        InterfaceConfig(addresses=("192.168.7.5/24",)),
        routes=(RouteConfig("172.31.0.0/16", gateway="192.168.7.1"),),
    )
    there = LinkState(NIC)
    given = replace(
        there,
        addresses=(replace(FULL.addresses[0], cidr="192.168.7.5/24"),),
        routes=(Route("172.31.0.0/16", gateway="192.168.7.1", protocol=4),),
    )

    state = adopted(given, AllocatedDevice("nic", "node", PUBLISHED, config))

    assert (state.addresses, state.routes) == ((), ())


def test_without_published_facts_mtu_and_address_stay() -> None:
    bare = Device("pci-0000-8a-00-0", DeviceKey("pci", "0000:8a:00.0", "eth1"))

    assert adopted(LinkState(NIC), AllocatedDevice("nic", "node", bare)).link == replace(
        NIC, xdp=()
    )
