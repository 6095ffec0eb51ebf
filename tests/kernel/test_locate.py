from dataclasses import replace

import pytest

from dranet_nri.kernel.locate import locate, lost_with
from dranet_nri.model import DeviceKey, Link
from dranet_nri.plan.child import alias_of
from dranet_nri.plan.known import Known

PORT = "0000:8a:00.0"
KEY = DeviceKey("pci", PORT, "eth1", PORT)
VIRTUAL = DeviceKey("", "", "eth1")


def link(index: int, name: str, *, parent: str = PORT, kind: str = "", bus: str = "pci") -> Link:
    """Return a link below a PCI function."""
    return Link(index, name, kind=kind, bus=bus if parent else "", parent=parent)


@pytest.mark.parametrize(
    ("host", "pod", "found"),
    [
        pytest.param([link(3, "eth1")], [], ("eth1", None), id="on the host"),
        pytest.param([link(3, "eth9")], [], ("eth9", None), id="renamed on the host"),
        pytest.param([], [link(3, "net1")], (None, "net1"), id="in the pod"),
        pytest.param([], [link(3, "dev3")], (None, "dev3"), id="renamed in the pod"),
        pytest.param([link(3, "eth1", parent="0000:8b:00.0")], [], (None, None), id="another"),
        pytest.param([link(3, "eth1", bus="virtio")], [], (None, None), id="another bus"),
        pytest.param([link(3, "eth1", parent="")], [], (None, None), id="a namesake"),
        pytest.param(
            [link(4, "eth2"), link(3, "eth1")], [], ("eth1", None), id="the port of that name"
        ),
        pytest.param(
            [link(3, "ib0.8001", kind="ipoib"), link(5, "ib7")], [], ("ib7", None), id="no child"
        ),
        pytest.param([link(5, "b"), link(4, "a")], [], ("a", None), id="the oldest"),
        pytest.param(
            [link(4, "eth2")], [link(3, "net1")], (None, "net1"), id="not the port that stayed"
        ),
        pytest.param(
            [link(3, "eth1")], [link(4, "net9")], ("eth1", None), id="not the port that went"
        ),
        pytest.param(
            [link(3, "eth1")], [link(4, "net1")], ("eth1", "net1"), id="both, by their names"
        ),
    ],
)
def test_a_device_with_a_parent_is_found_by_it(
    host: list[Link], pod: list[Link], found: tuple[str | None, str | None]
) -> None:
    here, there = locate(KEY, "net1", host, pod)

    assert (here.name if here else None, there.name if there else None) == found


@pytest.mark.parametrize(
    ("pod_name", "found"),
    [("net1", ("eth1", "net1")), ("eth1", ("eth1", None)), ("", ("eth1", None))],
)
def test_a_virtual_device_is_found_by_its_names(
    pod_name: str, found: tuple[str | None, str | None]
) -> None:
    host, pod = [link(3, "eth1", parent="")], [link(3, "net1", parent="")]

    here, there = locate(VIRTUAL, pod_name, host, pod)

    assert (here.name if here else None, there.name if there else None) == found


TOUCHED = Known(7, "veth", frozenset({"02:07"}))


def veth(index: int, name: str, mac: str) -> Link:
    """Return a virtual link."""
    return Link(index, name, kind="veth", mac=mac)


@pytest.mark.parametrize(
    ("host", "pod", "found"),
    [
        ([veth(7, "eth1", "02:07")], [], ("eth1", None)),
        ([veth(8, "eth1", "02:08")], [], (None, None)),
        ([veth(8, "eth1", "02:08")], [veth(2, "net1", "02:09")], (None, "net1")),
        ([], [veth(2, "eth0", "02:02"), veth(3, "mine", "02:07")], (None, "mine")),
        ([], [veth(3, "mine", "02:07"), veth(4, "copy", "02:07")], (None, None)),
        ([veth(8, "other", "02:07")], [], (None, None)),
    ],
    ids=["itself", "a namesake", "away", "renamed in the pod", "ambiguous", "renamed on the host"],
)
def test_a_virtual_device_that_was_touched_is_told_from_its_namesakes(
    host: list[Link], pod: list[Link], found: tuple[str | None, str | None]
) -> None:
    here, there = locate(VIRTUAL, "net1", host, pod, TOUCHED)

    assert (here and here.name, there and there.name) == found


OWN = Link(3, "ib0", kind="ipoib", arphrd=32, bus="pci", parent=PORT)
CHILD = Link(8, "ib0.8001", kind="ipoib", arphrd=32, lower=3)
SECOND = replace(OWN, index=4, name="ib1")


@pytest.mark.parametrize(
    ("other", "lost"),
    [
        pytest.param(CHILD, ("ib0.8001",), id="a child"),
        pytest.param(SECOND, ("ib1",), id="another port"),
        pytest.param(replace(CHILD, bus="pci", parent=PORT), ("ib0.8001",), id="with a parent"),
        pytest.param(replace(CHILD, lower=4), (), id="another one's child"),
        pytest.param(replace(CHILD, alias=alias_of("uid-1", "nic")), (), id="a stray of ours"),
        pytest.param(replace(SECOND, parent="0000:8b:00.0"), (), id="another function"),
        pytest.param(replace(SECOND, bus="virtio"), (), id="another bus"),
    ],
)
def test_infiniband_links_of_the_same_rdma_device_are_lost_with_it(
    other: Link, lost: tuple[str, ...]
) -> None:
    assert lost_with(OWN, [OWN, other]) == lost


def test_all_that_is_lost_is_told_in_order() -> None:
    assert lost_with(OWN, [SECOND, CHILD, OWN]) == ("ib0.8001", "ib1")


def test_links_without_a_parent_are_not_taken_for_ports_of_one_function() -> None:
    software = replace(OWN, bus="", parent="")

    assert lost_with(software, [software, replace(software, index=4, name="ib1")]) == ()


@pytest.mark.parametrize("own", [None, replace(OWN, arphrd=1)], ids=["away", "Ethernet"])
def test_nothing_is_lost_with_what_is_no_infiniband_link_of_the_host(own: Link | None) -> None:
    assert lost_with(own, [CHILD, SECOND]) == ()
