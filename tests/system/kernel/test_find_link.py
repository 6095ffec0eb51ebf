"""Identification of a device among the links of two namespaces."""

from dataclasses import replace

import pytest

from dranet_nri.kernel.find_link import LinkLocation, find_link, links_lost_with
from dranet_nri.model import DeviceKey, Link
from dranet_nri.plan.child import alias_of
from dranet_nri.plan.identity import DeviceIdentity

PORT = "0000:8a:00.0"
KEY = DeviceKey("pci", PORT, "eth1", PORT, 1)
VIRTUAL = DeviceKey("", "", "eth1")
MAC, GIVEN, OTHER = "02:01", "02:77", "02:99"

# The second port of a function while it is in a pod as net1, with an address that the claim gave.
IDENTITY = DeviceIdentity(
    3, "", frozenset({MAC, GIVEN}), pod_index=5, perm_mac=MAC, port=1, child=False
)
ONCE = replace(IDENTITY, pod_index=0, perm_mac="", port=None)  # by a record of an older version
FRESH = DeviceIdentity(0, "", frozenset({MAC}), port=1)  # as published
NAMED = DeviceIdentity(0, "", frozenset())  # by its key alone


def link(index: int, name: str, mac: str = "", **rest: object) -> Link:
    """Return a link below the PCI function."""
    below = Link(index, name, mac=mac, bus="pci", parent=PORT)
    return replace(below, **rest)  # type: ignore[arg-type]


FIRST = link(2, "eth0", OTHER, perm_mac=OTHER, dev_port=0)  # the host's own port
SECOND = link(3, "eth1", MAC, perm_mac=MAC, dev_port=1)
IN_POD = replace(SECOND, index=5, name="net1", mac=GIVEN, dev_port=None)


def found(located: LinkLocation) -> tuple[str | None, str | None]:
    """Return the names of what was found."""
    here, there = located.host, located.pod
    return here.name if here else None, there.name if there else None


@pytest.mark.parametrize("identity", [IDENTITY, ONCE, FRESH, NAMED], ids=str)
@pytest.mark.parametrize(
    ("host", "pod", "expected"),
    [
        pytest.param([], [], (None, None), id="nowhere"),
        pytest.param([SECOND], [], ("eth1", None), id="on the host"),
        pytest.param([replace(SECOND, name="eth9")], [], ("eth9", None), id="renamed on the host"),
        pytest.param([], [IN_POD], (None, "net1"), id="in the pod"),
        pytest.param([link(9, "eth7", OTHER)], [], ("eth7", None), id="recreated"),
        pytest.param([replace(SECOND, parent="0000:8b:00.0")], [], (None, None), id="another"),
        pytest.param([replace(SECOND, bus="virtio")], [], (None, None), id="another bus"),
        pytest.param([Link(3, "eth1", mac=MAC)], [], (None, None), id="a namesake"),
        pytest.param([FIRST, SECOND], [], ("eth1", None), id="beside another port"),
    ],
)
def test_device_with_a_parent_is_found_by_it(
    identity: DeviceIdentity,
    host: list[Link],
    pod: list[Link],
    expected: tuple[str | None, str | None],
) -> None:
    assert found(find_link(KEY, "net1", host, pod, identity)) == expected


@pytest.mark.parametrize(
    ("host", "pod", "identity", "expected"),
    [
        pytest.param(
            [FIRST, replace(IN_POD, dev_port=1)],
            [],
            IDENTITY,
            ("net1", None),
            id="back on the host under its pod's name",
        ),
        pytest.param(
            [replace(FIRST, perm_mac=""), replace(IN_POD, perm_mac="", dev_port=1)],
            [],
            IDENTITY,
            ("net1", None),
            id="by its number alone",
        ),
        pytest.param(
            [replace(FIRST, dev_port=None), replace(SECOND, name="x", mac=OTHER, dev_port=None)],
            [],
            IDENTITY,
            ("x", None),
            id="by its permanent address",
        ),
        pytest.param(
            [
                replace(FIRST, mac=MAC, dev_port=None),
                replace(SECOND, name="x", mac=OTHER, dev_port=None),
            ],
            [],
            IDENTITY,
            ("x", None),
            id="by its permanent address, while the other port has its address",
        ),
        pytest.param(
            [link(2, "eth0", OTHER), link(3, "x", GIVEN)], [], ONCE, ("x", None), id="by an address"
        ),
        pytest.param(
            [link(2, "eth0"), link(3, "eth1")], [], NAMED, ("eth1", None), id="by its name"
        ),
        pytest.param(
            [replace(FIRST, name="eth1"), replace(SECOND, name="eth0")],
            [],
            FRESH,
            ("eth0", None),
            id="names changed hands",
        ),
        pytest.param([FIRST], [], IDENTITY, (None, None), id="only the other port is there"),
        pytest.param([FIRST], [], FRESH, (None, None), id="only the other port was there"),
        pytest.param(
            [FIRST],
            [replace(IN_POD, name="x", mac=OTHER)],
            IDENTITY,
            (None, "x"),
            id="renamed there",
        ),
        pytest.param(
            [FIRST],
            [link(4, "net0", GIVEN), link(5, "x", OTHER)],
            IDENTITY,
            (None, "x"),
            id="by its index there",
        ),
        pytest.param(
            [],
            [replace(IN_POD, index=9, mac=OTHER)],
            IDENTITY,
            (None, "net1"),
            id="came back there",
        ),
        pytest.param(
            [],
            [replace(FIRST, index=4, dev_port=None)],
            IDENTITY,
            (None, None),
            id="a claim of both",
        ),
        pytest.param(
            [], [link(4, "net0", OTHER)], IDENTITY, (None, None), id="another index there"
        ),
        pytest.param([], [link(4, "net0", OTHER)], FRESH, (None, None), id="before it came"),
        pytest.param(
            [],
            [replace(IN_POD, alias="dra.net/x")],
            IDENTITY,
            (None, "net1"),
            id="an alias like ours",
        ),
        pytest.param(
            [replace(SECOND, alias="dra.net/x")],
            [],
            IDENTITY,
            ("eth1", None),
            id="returned with the alias",
        ),
        pytest.param([], [link(4, "net0", OTHER)], ONCE, (None, "net0"), id="the only one there"),
        pytest.param(
            [], [link(4, "x", OTHER, perm_mac=MAC)], FRESH, (None, "x"), id="adopted there"
        ),
        pytest.param(
            [link(2, "eth0")],
            [link(5, "net1")],
            ONCE,
            (None, "net1"),
            id="not the port that stayed",
        ),
        pytest.param(
            [link(3, "eth1")], [link(4, "x")], ONCE, ("eth1", None), id="not the port that went"
        ),
    ],
)
def test_recorded_port_is_found_among_several(
    host: list[Link],
    pod: list[Link],
    identity: DeviceIdentity,
    expected: tuple[str | None, str | None],
) -> None:
    located = find_link(KEY, "net1", host, pod, identity)

    assert (found(located), located.ambiguous) == (expected, ())


@pytest.mark.parametrize(
    ("host", "pod", "ambiguous"),
    [
        pytest.param([link(4, "b"), link(2, "a")], [], ("b", "a"), id="on the host"),
        pytest.param([link(2, "a")], [link(4, "x")], ("a", "x (in the pod)"), id="in both"),
        pytest.param(
            [link(2, "eth1")], [link(4, "net1")], ("eth1", "net1 (in the pod)"), id="both names"
        ),
        pytest.param(
            [link(2, "a", MAC), link(3, "b", MAC), link(4, "c")], [], ("a", "b"), id="one address"
        ),
    ],
)
def test_indistinguishable_ports_are_unclear(
    host: list[Link], pod: list[Link], ambiguous: tuple[str, ...]
) -> None:
    assert find_link(KEY, "net1", host, pod, ONCE) == LinkLocation(ambiguous=ambiguous)


def ipoib(index: int, name: str, mac: str = "", **rest: object) -> Link:
    """Return an IPoIB link below the PCI function."""
    return link(index, name, mac, kind="ipoib", arphrd=32, **rest)


BASE = DeviceIdentity(3, "ipoib", frozenset(), child=False)


@pytest.mark.parametrize(
    ("identity", "links", "expected"),
    [
        (BASE, [ipoib(2, "c", lower=3), ipoib(3, "ib7")], "ib7"),
        (BASE, [ipoib(2, "eth1", lower=3), ipoib(3, "ib7")], "ib7"),
        (NAMED, [ipoib(2, "eth1", lower=3), ipoib(3, "ib7")], "eth1"),
        (replace(BASE, child=True), [ipoib(2, "c", lower=3), ipoib(3, "ib7")], "c"),
        (replace(BASE, child=True), [ipoib(3, "ib7")], None),
        (BASE, [ipoib(2, "ours", lower=3, alias=alias_of("uid", "nic"))], None),
        (BASE, [ipoib(3, "ib7", alias=alias_of("uid", "nic"))], "ib7"),
    ],
    ids=[
        *("no child", "no namesake", "a child", "a child before", "not its parent"),
        *("none of ours", "a port that a pod called so"),
    ],
)
def test_upper_link_of_a_port_is_another_device(
    identity: DeviceIdentity, links: list[Link], expected: str | None
) -> None:
    assert found(find_link(KEY, "", links, [], identity)) == (expected, None)


def test_recreated_infiniband_port_is_identified_by_its_guid() -> None:
    guids = "00:00:00:{}:fe:80:00:00:00:00:00:00:0c:42:a1:03:00:65:5a:{}"
    identity = replace(BASE, perm_mac=guids.format("01", "1e"))
    links = [
        ipoib(8, "a", mac=guids.format("09", "1f")),
        ipoib(9, "b", mac=guids.format("0a", "1e")),
    ]

    assert found(find_link(KEY, "net1", [], links, identity)) == (None, "b")


@pytest.mark.parametrize(
    ("pod_name", "expected"),
    [("net1", ("eth1", "net1")), ("eth1", ("eth1", None)), ("", ("eth1", None))],
)
def test_virtual_device_is_found_by_its_names(
    pod_name: str, expected: tuple[str | None, str | None]
) -> None:
    located = find_link(VIRTUAL, pod_name, [Link(3, "eth1")], [Link(3, "net1")])

    assert found(located) == expected


TOUCHED = DeviceIdentity(7, "veth", frozenset({"02:07"}))
ATTACHED = replace(TOUCHED, pod_index=3)


def veth(index: int, name: str, mac: str, kind: str = "veth") -> Link:
    """Return a virtual link."""
    return Link(index, name, kind=kind, mac=mac)


ETH0 = veth(2, "eth0", "02:02")


@pytest.mark.parametrize("identity", [TOUCHED, ATTACHED], ids=["touched", "attached"])
@pytest.mark.parametrize(
    ("host", "pod", "expected"),
    [
        ([veth(7, "eth1", "02:07")], [], ("eth1", None)),
        ([veth(8, "eth1", "02:08")], [], (None, None)),
        ([veth(8, "eth1", "02:08")], [ETH0, veth(3, "net1", "02:09")], (None, "net1")),
        ([], [ETH0, veth(3, "mine", "02:07")], (None, "mine")),
        ([], [ETH0, veth(4, "mine", "02:07")], (None, "mine")),
        ([], [ETH0, veth(4, "net1", "02:07", "bridge")], (None, None)),
        ([], [ETH0], (None, None)),
        ([veth(7, "other", "02:07")], [], ("other", None)),
        ([veth(7, "other", "02:08")], [], (None, None)),
        ([veth(9, "eth1", "02:09", "dummy"), veth(8, "dra3", "02:07")], [], ("dra3", None)),
        ([veth(7, "dra7", "02:08"), veth(3, "dra3", "02:07", "dummy")], [], (None, None)),
    ],
    ids=[
        "itself", "a namesake", "away", "renamed in the pod", "went and came back",
        "a namesake there", "no more", "renamed on the host", "another of its index",
        "waits for its name", "others wait",
    ],
)  # fmt: skip
def test_modified_virtual_device_is_distinguished_from_links_of_the_same_name(
    identity: DeviceIdentity,
    host: list[Link],
    pod: list[Link],
    expected: tuple[str | None, str | None],
) -> None:
    located = find_link(VIRTUAL, "net1", host, pod, identity)

    assert (found(located), located.ambiguous) == (expected, ())


@pytest.mark.parametrize("identity", [TOUCHED, ATTACHED], ids=["touched", "attached"])
def test_host_link_with_only_the_address_of_a_virtual_device_is_unclear(
    identity: DeviceIdentity,
) -> None:
    located = find_link(VIRTUAL, "net1", [veth(8, "other", "02:07")], [], identity)

    assert located == LinkLocation(ambiguous=("other",))


@pytest.mark.parametrize(
    ("host", "pod", "expected"),
    [
        ([], [ETH0, veth(3, "mine", "02:66")], (None, "mine")),
        ([], [ETH0, veth(3, "mine", "02:66"), veth(4, "net1", "02:07")], (None, "mine")),
        ([], [ETH0, veth(4, "net1", "02:66")], (None, None)),
        ([], [ETH0, veth(3, "net1", "02:66", "bridge")], (None, None)),
        ([veth(7, "eth1", "02:66")], [ETH0, veth(3, "mine", "02:66")], (None, "mine")),
    ],
    ids=["renamed and addressed", "disguised", "replaced", "another kind", "a late namesake"],
)
def test_virtual_device_in_its_pod_is_identified_by_its_index(
    host: list[Link], pod: list[Link], expected: tuple[str | None, str | None]
) -> None:
    assert found(find_link(VIRTUAL, "net1", host, pod, ATTACHED)) == expected


@pytest.mark.parametrize(
    ("identity", "pod", "ambiguous"),
    [
        (TOUCHED, [veth(3, "mine", "02:07"), veth(4, "copy", "02:07")], ("mine", "copy")),
        (ATTACHED, [veth(5, "mine", "02:07"), veth(4, "copy", "02:07")], ("mine", "copy")),
        (TOUCHED, [ETH0, veth(7, "mine", "02:66")], ("eth0", "mine")),
        (TOUCHED, [veth(7, "tunl0", "", "ipip"), veth(8, "mine", "02:66")], ("mine",)),
    ],
    ids=["one address", "one address for two indexes", "its index", "its index is taken"],
)
def test_virtual_device_possibly_in_the_pod_is_unclear(
    identity: DeviceIdentity, pod: list[Link], ambiguous: tuple[str, ...]
) -> None:
    reported = tuple(f"{name} (in the pod)" for name in ambiguous)

    assert find_link(VIRTUAL, "net1", [], pod, identity) == LinkLocation(ambiguous=reported)


def test_several_candidates_on_the_host_are_unclear() -> None:
    host = [veth(9, "eth1", "02:07"), veth(8, "dra3", "02:07")]

    assert find_link(VIRTUAL, "net1", host, [], ATTACHED) == LinkLocation(
        ambiguous=("eth1", "dra3")
    )


def test_link_with_the_address_of_its_parent_is_identified_by_its_index() -> None:
    vlan = replace(TOUCHED, kind="vlan")

    located = find_link(VIRTUAL, "net1", [], [veth(7, "mine", "02:07", "vlan")], vlan)

    assert found(located) == (None, "mine")


OWN = Link(3, "ib0", kind="ipoib", arphrd=32, bus="pci", parent=PORT)
CHILD = Link(8, "ib0.8001", kind="ipoib", arphrd=32, lower=3)
NEXT = replace(OWN, index=4, name="ib1")


@pytest.mark.parametrize(
    ("other", "lost"),
    [
        pytest.param(CHILD, ("ib0.8001",), id="a child"),
        pytest.param(NEXT, ("ib1",), id="another port"),
        pytest.param(replace(CHILD, bus="pci", parent=PORT), ("ib0.8001",), id="with a parent"),
        pytest.param(replace(CHILD, lower=4), (), id="another one's child"),
        pytest.param(replace(CHILD, alias=alias_of("uid-1", "nic")), (), id="a stray of ours"),
        pytest.param(replace(NEXT, parent="0000:8b:00.0"), (), id="another function"),
        pytest.param(replace(NEXT, bus="virtio"), (), id="another bus"),
    ],
)
def test_infiniband_links_of_the_same_rdma_device_are_lost_with_it(
    other: Link, lost: tuple[str, ...]
) -> None:
    assert links_lost_with(OWN, [OWN, other]) == lost


def test_lost_links_are_reported_in_order() -> None:
    assert links_lost_with(OWN, [NEXT, CHILD, OWN]) == ("ib0.8001", "ib1")


def test_links_without_a_parent_are_not_ports_of_one_function() -> None:
    software = replace(OWN, bus="", parent="")

    assert links_lost_with(software, [software, replace(software, index=4, name="ib1")]) == ()


@pytest.mark.parametrize("own", [None, replace(OWN, arphrd=1)], ids=["away", "Ethernet"])
def test_link_that_is_no_infiniband_link_of_the_host_loses_no_others(own: Link | None) -> None:
    assert links_lost_with(own, [CHILD, NEXT]) == ()
