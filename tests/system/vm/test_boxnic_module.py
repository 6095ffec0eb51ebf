"""The NICs without hardware go and come with their module."""

from tests.box.boxnic import (
    BROADCAST,
    PCI,
    Frame,
    Listener,
    load,
    physical_functions,
    send,
    unload,
)
from tests.box.nics import ip

MACHINE = "uml"  # on no other

VLAN = 42


def test_wire_continues_through_the_device_given_to_the_module() -> None:
    had = unload()
    assert not list(PCI.glob("devices/0000:*"))
    ip("link", "add", "beyond", "up", "type", "veth", "peer", "name", "within")
    ip("link", "set", "within", "up")
    load(**{**had, "nics": "1", "wire": "within"})
    nic = physical_functions()[0]
    ip("link", "set", nic.name, "up")

    with Listener(nic.name) as here, Listener("beyond") as there:
        send(nic.name, BROADCAST, "out")
        send("beyond", nic.mac(), "in", vlan=VLAN)
        assert there.next() == Frame("out")

        send("beyond", nic.mac(), "in")
        assert here.next() == Frame("in")

    unload()
    ip("link", "del", "beyond")
    load(**had)
    assert len(physical_functions()) == int(had["nics"])
