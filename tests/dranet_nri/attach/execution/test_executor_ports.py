"""Several net devices of one PCI function, and devices that the pod renames."""

from dataclasses import replace

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    Address,
    AllocatedDevice,
    Attachment,
    Device,
    DeviceKey,
    InterfaceConfig,
    Link,
    NetworkConfig,
    Ns,
    Phase,
)
from dranet_nri.plan.ops import LinkSettings, MoveLink, Op, RenameLink, SetDown, SetLink, SetUp
from tests.dranet_nri.attach.execution.journal import Crash
from tests.dranet_nri.attach.execution.node import DATA, VIRTUAL, Node, claim, failure_of, given

pytestmark = pytest.mark.process


PARENT = "0000:0a:00.0"
NET1 = NetworkConfig(InterfaceConfig(name="net1"))
DISGUISE = LinkSettings(mac="02:00:00:00:66:66")
UNCLEAR = "cannot be distinguished from other links: it may be one or two"


def mac(number: int) -> str:
    """Return the address of a port."""
    return f"02:00:00:00:0a:0{number}"


def second_port(*, port: int | None = 1) -> AllocatedDevice:
    """Return the second port as allocated; port None: by a shim without port numbers."""
    key = DeviceKey("pci", PARENT, "ethB", PARENT, port)
    attributes = (("dra.net/mac", mac(1)),)
    return given(Device("pci-0000-0a-00-0-p1", key, attributes), NET1)


class TwoPorts(Node):
    """A host with a NIC of two ports on one function; the host uses the first."""

    watched: tuple[str, ...] = ("ethA", "ethB")

    def arrange(self) -> None:
        for number, name in enumerate(("ethA", "ethB")):
            link = Link(0, name, mac=mac(number), perm_mac=mac(number), dev_port=number, up=True)
            addresses = (Address(f"10.66.{number}.1/24"),)
            self.kernel.add_link(name, parent=PARENT, link=link, addresses=addresses)

    def take(self, device: AllocatedDevice) -> Attachment:
        (record,) = self.attach((claim(DATA, device),))
        return record

    def die(self) -> None:
        """Let the pod's namespace die."""
        self.kernel.destroy_netns(self.netns)

    def change_in_pod(self, name: str, new: str, *ops: SetLink) -> None:
        """Rename and change a link in the pod, as the pod may do."""
        index = self.kernel.space(self.netns).named("look", name).link.index
        self.apply(*ops, SetDown(Ns.POD, index), RenameLink(Ns.POD, index, new))

    def apply(self, *ops: Op) -> None:
        """Apply operations as an administrator."""
        session = self.kernel.session(self.netns)
        for op in ops:
            session.apply(op)
        session.close()


@pytest.fixture
def node() -> TwoPorts:
    return TwoPorts()


def old_record(record: Attachment) -> Attachment:
    """Return the record of a version without port numbers and permanent addresses."""
    (device,) = record.devices
    assert device.snapshot is not None
    key = replace(device.device.key, port=None)
    link = replace(device.snapshot.link, perm_mac="", dev_port=None)
    older = replace(
        device,
        device=replace(device.device, key=key),
        snapshot=replace(device.snapshot, link=link),
        pod_index=0,
    )
    return replace(record, devices=(older,))


@pytest.mark.parametrize(
    "older", [False, True], ids=["as recorded", "recorded by a version before"]
)
def test_port_returned_under_its_pod_name_is_restored_without_its_sibling(
    node: TwoPorts,
    older: bool,  # noqa: FBT001 - a case
) -> None:
    record = node.take(second_port())
    node.die()

    detached = node.executor.detach(old_record(record) if older else record, netns_exists=False)

    assert (detached.phase, detached.failure) == (Phase.RESTORED, None)
    node.assert_restored()


@pytest.mark.parametrize("ops", [(), (SetLink(Ns.POD, "net1", DISGUISE),)], ids=["name", "both"])
def test_port_renamed_and_readdressed_by_the_pod_is_restored_without_its_sibling(
    node: TwoPorts, ops: tuple[SetLink, ...]
) -> None:
    record = node.take(second_port())
    node.change_in_pod("net1", "mine", *ops)

    assert node.executor.verify(record, None) == record
    assert node.executor.detach(record, netns_exists=True).phase is Phase.RESTORED
    node.assert_restored()


def test_missing_port_keeps_the_claim_in_detaching_beside_its_sibling(
    node: TwoPorts,
) -> None:
    record = node.take(second_port())
    node.kernel.remove_link("net1", node.netns)
    before = node.kernel.state("ethA")

    waiting = node.executor.detach(record, netns_exists=True)

    assert (waiting.phase, waiting.failure) == (Phase.DETACHING, None)
    assert node.kernel.state("ethA") == before


@pytest.mark.parametrize("crash", [False, True], ids=["attached", "crashed"])
def test_port_recreated_by_its_driver_is_the_same_port_in_the_pod(
    node: TwoPorts,
    crash: bool,  # noqa: FBT001 - a case
) -> None:
    node.take(second_port())
    node.kernel.remove_link("net1", node.netns)
    recreated = Link(0, "eth7", mac=mac(7), perm_mac=mac(7), dev_port=1)
    node.kernel.add_link("eth7", parent=PARENT, link=recreated)
    if crash:
        node.kernel.fail_on(SetUp, Crash())
        with pytest.raises(Crash):
            node.take(second_port())
        node.restart()
    else:
        record = node.take(second_port())
        node.change_in_pod("net1", "mine")
        assert node.executor.verify(record, None) == record

    detached = node.executor.detach(node.journal.records[DATA], netns_exists=True)

    assert detached.phase is Phase.RESTORED
    state = node.kernel.state("ethB")
    assert state is not None
    assert state.link.perm_mac == mac(7)


def test_port_renamed_after_allocation_is_attached_to_the_pod(
    node: TwoPorts,
) -> None:
    for name, new in (("ethA", "other"), ("ethB", "ethA")):
        entry = node.kernel.space().named("arrange", name)
        entry.link = replace(entry.link, name=new)

    node.take(second_port())

    state = node.kernel.state("net1", node.netns)
    assert state is not None
    assert state.link.mac == mac(1)
    assert node.kernel.state("other") is not None


def make_indistinguishable(node: TwoPorts) -> None:
    """Make the ports indistinguishable by number, address and name."""
    for name, new in (("ethA", "one"), ("ethB", "two")):
        entry = node.kernel.space().named("arrange", name)
        entry.link = replace(entry.link, name=new, mac="", perm_mac="", dev_port=None)


def test_indistinguishable_ports_are_refused_with_their_names(node: TwoPorts) -> None:
    make_indistinguishable(node)
    log = list(node.kernel.log)

    with pytest.raises(RefusedError, match=UNCLEAR):
        node.take(second_port(port=None))

    assert node.kernel.log == log
    assert UNCLEAR in failure_of(node).message


def test_indistinguishable_ports_are_reported_and_unchanged_by_a_detach(
    node: TwoPorts,
) -> None:
    record = old_record(node.take(second_port(port=None)))
    index = node.kernel.space(node.netns).named("look", "net1").link.index
    node.apply(MoveLink(Ns.POD, index, Ns.HOST, "ethB"))
    make_indistinguishable(node)
    log = list(node.kernel.log)

    waiting = node.executor.detach(record, netns_exists=True)

    assert waiting.phase is Phase.DETACHING
    assert waiting.failure is not None
    assert UNCLEAR in waiting.failure.message
    assert node.kernel.log == log
    for name, port in (("one", 0), ("two", 1)):
        entry = node.kernel.space().named("arrange", name)
        entry.link = replace(entry.link, name="ethB" if port else "ethA", mac=mac(port))
    assert node.executor.detach(waiting, netns_exists=True).phase is Phase.RESTORED


def test_two_claims_of_one_pod_are_verified_by_their_own_port(node: TwoPorts) -> None:
    first = Device("pci-0000-0a-00-0", DeviceKey("pci", PARENT, "ethA", PARENT, 0))
    node.attach((claim(DATA, given(first)), claim("claim-b", second_port())))
    a, b = (node.journal.records[uid] for uid in (DATA, "claim-b"))
    node.kernel.remove_link("net1", node.netns)

    assert node.executor.verify(a, None) == a
    assert node.executor.verify(b, None) is None


# ------------------------------------------------------------------- without hardware


def test_virtual_device_renamed_and_readdressed_by_the_pod_is_restored(node: TwoPorts) -> None:
    before = node.kernel.state("dummy0")
    record = node.take(given(VIRTUAL, NET1))
    node.change_in_pod("net1", "mine", SetLink(Ns.POD, "net1", DISGUISE))

    assert node.executor.verify(record, None) == record
    detached = node.executor.detach(record, netns_exists=True)

    assert (detached.phase, detached.failure) == (Phase.RESTORED, None)
    assert node.kernel.state("mine", node.netns) is None
    after = node.kernel.state("dummy0")
    assert before is not None
    assert after is not None
    assert (after.link.mac, after.addresses) == (before.link.mac, before.addresses)


def test_virtual_device_possibly_in_the_pod_is_not_reported_as_gone(node: TwoPorts) -> None:
    record = old_record(node.take(given(VIRTUAL, NET1)))
    node.change_in_pod("net1", "mine", SetLink(Ns.POD, "net1", DISGUISE))

    waiting = node.executor.detach(record, netns_exists=True)

    assert waiting.phase is Phase.DETACHING
    assert waiting.failure is not None
    assert "it may be mine (in the pod)" in waiting.failure.message
    node.die()
    assert node.executor.detach(waiting, netns_exists=False).phase is Phase.RESTORED


def test_record_of_an_earlier_version_gets_the_index_of_the_named_device(
    node: TwoPorts,
) -> None:
    record = node.take(given(VIRTUAL, NET1))

    assert node.executor.verify(old_record(record), None) == record
    assert node.journal.records[DATA] == record


def test_refused_attach_keeps_the_recorded_state_of_a_device_in_the_pod(
    node: TwoPorts,
) -> None:
    virtual = given(VIRTUAL, NetworkConfig(InterfaceConfig(name="net2")))
    claims = (claim(DATA, second_port(), virtual),)
    node.attach(claims)
    node.change_in_pod("net2", "mine", SetLink(Ns.POD, "net2", DISGUISE))
    node.kernel.remove_link("net1", node.netns)

    with pytest.raises(RefusedError, match=r"neither on the host nor in the pod"):
        node.attach(claims)
    record = node.executor.detach(node.journal.records[DATA], netns_exists=True)

    assert [device.restored for device in record.devices] == [False, True]
    assert node.kernel.state("dummy0") is not None


def test_recorded_pod_state_of_a_device_is_removed_after_its_return(
    node: TwoPorts,
) -> None:
    interface = InterfaceConfig(name="net1", hardware_addr="02:00:00:00:77:77")
    allocated = given(VIRTUAL, NetworkConfig(interface))
    (device,) = node.take(allocated).devices
    node.apply(MoveLink(Ns.POD, device.pod_index, Ns.HOST, "dummy0"))
    node.kernel.add_link("eth1", node.netns, link=Link(0, "eth1", kind="veth"))
    taken = node.kernel.space(node.netns).named("arrange", "eth1")
    taken.link = replace(taken.link, index=device.pod_index)
    node.kernel.fail_on(SetUp, Crash())

    with pytest.raises(Crash):
        node.take(allocated)
    node.restart()
    record = node.executor.detach(node.journal.records[DATA], netns_exists=True)

    assert (record.phase, record.failure) == (Phase.RESTORED, None)
    assert node.kernel.state("dummy0") is not None
