"""Identification of a device on the host and in its pod."""

from dataclasses import replace

import pytest

from dranet_nri.model import AttachedDevice, Device, DeviceKey, Link, LinkState, Observed, RdmaLink
from dranet_nri.plan.identity import (
    DeviceIdentity,
    RdmaIdentity,
    device_identity,
    rdma_identity,
    why_ambiguous,
)

VETH = Link(7, "nic0", kind="veth", mac="02:00:00:00:00:07")
DEVICE = AttachedDevice(
    "nic",
    Device("nic0", DeviceKey("", "", "nic0")),
    snapshot=LinkState(VETH),
    mac="02:00:00:00:77:0A",
    pod_index=3,
)
IDENTITY = DeviceIdentity(7, "veth", frozenset({VETH.mac, "02:00:00:00:77:0a"}), 3, child=False)
OTHER_MAC = "02:00:00:00:00:99"

PORT = Link(
    9, "eth2", mac="0c:42:a1:00:00:02", bus="pci", parent="0000:8a:00.0",
    perm_mac="0c:42:a1:00:00:01", dev_port=1,
)  # fmt: skip
HARDWARE = AttachedDevice(
    "nic",
    Device(
        "pci-0000-8a-00-0-p1",
        DeviceKey("pci", "0000:8a:00.0", "eth2", "0000:8a:00.0", 1),
        (("dra.net/mac", "0C:42:A1:00:00:02"),),
    ),
    pod_name="net1",
)
ATTACHED = replace(HARDWARE, snapshot=LinkState(PORT), mac=OTHER_MAC, pod_index=4)
PORT_IDENTITY = DeviceIdentity(
    9, "", frozenset({PORT.mac, OTHER_MAC}), pod_index=4, perm_mac=PORT.perm_mac, port=1,
    child=False,
)  # fmt: skip
GID = "fe:80:00:00:00:00:00:00:0c:42:a1:03:00:65:5a"


@pytest.mark.parametrize(
    ("device", "identity"),
    [
        pytest.param(DEVICE, IDENTITY, id="virtual"),
        pytest.param(replace(DEVICE, snapshot=None), None, id="virtual, not touched"),
        pytest.param(replace(DEVICE, restored=True), None, id="virtual, restored"),
        pytest.param(ATTACHED, PORT_IDENTITY, id="hardware"),
        pytest.param(
            HARDWARE,
            DeviceIdentity(0, "", frozenset({PORT.mac}), port=1),
            id="hardware, as published",
        ),
        pytest.param(
            replace(ATTACHED, restored=True),
            DeviceIdentity(0, "", frozenset({PORT.mac}), port=1),
            id="restored",
        ),
        pytest.param(
            replace(HARDWARE, device=Device("a", DeviceKey("pci", "0000:8a:00.0", "eth2"))),
            DeviceIdentity(0, "", frozenset()),
            id="hardware with few facts",
        ),
        pytest.param(
            replace(ATTACHED, device=Device("a", DeviceKey("pci", "0000:8a:00.0", "eth2"))),
            PORT_IDENTITY,
            id="its number was seen when it was touched",
        ),
        pytest.param(
            replace(ATTACHED, snapshot=LinkState(replace(PORT, lower=3))),
            replace(PORT_IDENTITY, child=True),
            id="a child",
        ),
    ],
)
def test_identity_is_that_of_the_record(
    device: AttachedDevice, identity: DeviceIdentity | None
) -> None:
    assert device_identity(device) == identity


@pytest.mark.parametrize(
    ("link", "is_same"),
    [
        (VETH, True),
        (replace(VETH, mac=OTHER_MAC), True),
        (replace(VETH, index=99), True),
        (replace(VETH, index=99, mac=OTHER_MAC), False),
        (replace(VETH, kind="bridge"), False),
    ],
    ids=["the same", "of another address", "of another index", "of neither", "of another kind"],
)
def test_link_of_the_same_name_may_be_another_device(link: Link, is_same: bool) -> None:  # noqa: FBT001 - the expectation
    assert IDENTITY.is_same(link) is is_same


@pytest.mark.parametrize(
    ("identity", "link", "waits"),
    [
        (IDENTITY, replace(VETH, name="dra9"), True),
        (IDENTITY, replace(VETH, name="dra9", index=99), True),
        (IDENTITY, replace(VETH, name="dra9", mac=OTHER_MAC), False),
        (IDENTITY, replace(VETH, name="dra9", kind="bridge"), False),
        (IDENTITY, replace(VETH, name="other"), False),
        (replace(IDENTITY, macs=frozenset()), replace(VETH, name="dra9", mac=""), True),
        (replace(IDENTITY, kind="vlan"), replace(VETH, name="dra9", kind="vlan"), True),
        (replace(IDENTITY, kind="vlan"), replace(VETH, name="dra9", kind="vlan", index=99), False),
        (replace(IDENTITY, kind="vlan"), replace(VETH, name="dra3", kind="vlan", index=99), True),
        (replace(IDENTITY, kind="vlan"), replace(VETH, name="dra31", kind="vlan", index=99), True),
        (
            replace(IDENTITY, kind="vlan", pod_index=0),
            replace(VETH, name="dra0", kind="vlan", index=99),
            False,
        ),
    ],
    ids=[
        "the same", "of another index", "of another address", "of another kind", "of another name",
        "without address", "with its parent's", "with its parent's and of another index",
        "named by its index in the pod", "and that name was taken", "index in the pod unknown",
    ],
)  # fmt: skip
def test_device_waiting_for_its_name_has_a_temporary_one(
    identity: DeviceIdentity,
    link: Link,
    waits: bool,  # noqa: FBT001 - the expectation
) -> None:
    assert identity.is_under_temporary_name(link) is waits


@pytest.mark.parametrize(
    ("identity", "link", "is_named"),
    [
        (replace(IDENTITY, pod_index=0), replace(VETH, mac=OTHER_MAC), True),
        (IDENTITY, VETH, True),
        (IDENTITY, replace(VETH, mac=OTHER_MAC), False),
        (IDENTITY, replace(VETH, kind="bridge"), False),
    ],
    ids=["index unknown", "another index", "of another address too", "of another kind"],
)
def test_device_in_the_pod_is_identified_by_name_while_its_index_is_unknown(
    identity: DeviceIdentity,
    link: Link,
    is_named: bool,  # noqa: FBT001 - the expectation
) -> None:
    assert identity.is_named(link) is is_named


@pytest.mark.parametrize(
    ("identity", "link", "is_there"),
    [
        (IDENTITY, Link(3, "mine", kind="veth", mac=OTHER_MAC), True),
        (IDENTITY, replace(VETH, index=4), False),
        (IDENTITY, Link(3, "mine", kind="bridge"), False),
        (replace(IDENTITY, pod_index=0), Link(0, "", kind="veth"), False),
    ],
    ids=["under any name", "another index", "another kind", "unknown"],
)
def test_pod_index_identifies_the_device(
    identity: DeviceIdentity, link: Link, *, is_there: bool
) -> None:
    assert identity.is_at_pod_index(link) is is_there


@pytest.mark.parametrize(
    ("identity", "link", "alike"),
    [
        (IDENTITY, replace(VETH, index=99, name="mine"), True),
        (IDENTITY, replace(VETH, mac=OTHER_MAC), False),
        (IDENTITY, replace(VETH, kind="bridge"), False),
        (replace(IDENTITY, kind="vlan"), replace(VETH, kind="vlan"), False),
    ],
    ids=["renamed", "of another address", "of another kind", "of its parent's address"],
)
def test_link_of_another_name_requires_its_own_address_to_match(
    identity: DeviceIdentity,
    link: Link,
    alike: bool,  # noqa: FBT001 - the expectation
) -> None:
    assert identity.has_own_mac(link) is alike


def test_links_in_the_pod_are_candidates_while_the_index_is_unknown() -> None:
    identity = replace(IDENTITY, pod_index=0)
    renamed, later, tunnel = replace(VETH, mac=OTHER_MAC), replace(VETH, index=8), Link(7, "tunl0")

    assert identity.candidates_by_index((renamed, Link(1, "lo"))) == (renamed,)
    assert identity.candidates_by_index((tunnel, later)) == (later,)
    assert identity.candidates_by_index((later,)) == ()
    assert IDENTITY.candidates_by_index((renamed,)) == ()


@pytest.mark.parametrize(
    ("identity", "link", "is_another"),
    [
        (PORT_IDENTITY, PORT, False),
        (PORT_IDENTITY, replace(PORT, dev_port=0), True),
        (PORT_IDENTITY, replace(PORT, dev_port=None), False),
        (replace(PORT_IDENTITY, port=None), PORT, False),
        (replace(PORT_IDENTITY, port=0), PORT, True),
    ],
    ids=["its own", "another", "unknown", "not recorded", "the first one"],
)
def test_ports_differ_by_number(identity: DeviceIdentity, link: Link, is_another: bool) -> None:  # noqa: FBT001 - the expectation
    assert identity.is_another_port(link) is is_another


def test_hardware_is_identified_by_addresses() -> None:
    guid = replace(PORT_IDENTITY, macs=frozenset({f"00:00:00:01:{GID}:1e"}), perm_mac="")
    recreated = replace(PORT, mac=f"00:00:00:09:{GID}:1e", perm_mac="")

    assert PORT_IDENTITY.has_perm_mac(replace(PORT, mac=""))
    assert not PORT_IDENTITY.has_perm_mac(replace(PORT, perm_mac=OTHER_MAC))
    assert not guid.has_perm_mac(recreated)
    assert PORT_IDENTITY.has_mac(replace(PORT, mac=OTHER_MAC))
    assert not PORT_IDENTITY.has_mac(replace(PORT, mac=PORT.perm_mac))
    assert guid.has_guid(recreated)
    assert guid.has_guid(replace(PORT, perm_mac=recreated.mac))
    assert not guid.has_guid(replace(recreated, mac=f"00:00:00:01:{GID}:1f"))
    assert not PORT_IDENTITY.has_guid(PORT)


IN_POD = replace(PORT, index=4, name="mine", mac="02:66", perm_mac="", dev_port=None)
ONCE = replace(PORT_IDENTITY, pod_index=0)
FRESH = DeviceIdentity(0, "", frozenset({PORT.mac}))


@pytest.mark.parametrize(
    ("identity", "link", "is_another"),
    [
        pytest.param(
            PORT_IDENTITY, replace(IN_POD, index=5, perm_mac=PORT.perm_mac), False, id="it"
        ),
        pytest.param(
            PORT_IDENTITY,
            replace(IN_POD, index=5, perm_mac=OTHER_MAC),
            True,
            id="another's address",
        ),
        pytest.param(PORT_IDENTITY, replace(IN_POD, perm_mac=OTHER_MAC), False, id="recreated"),
        pytest.param(
            ONCE, replace(IN_POD, perm_mac=OTHER_MAC, name="net1"), False, id="recreated, unproven"
        ),
        pytest.param(ONCE, replace(IN_POD, perm_mac=OTHER_MAC), True, id="another, unproven"),
        pytest.param(PORT_IDENTITY, IN_POD, False, id="its index"),
        pytest.param(PORT_IDENTITY, replace(IN_POD, index=5), True, id="nothing speaks for it"),
        pytest.param(
            PORT_IDENTITY, replace(IN_POD, index=5, mac=PORT.mac), False, id="its address"
        ),
        pytest.param(PORT_IDENTITY, replace(IN_POD, index=5, name="net1"), False, id="its name"),
        pytest.param(ONCE, IN_POD, False, id="index not recorded"),
        pytest.param(FRESH, IN_POD, True, id="nothing speaks for it yet"),
        pytest.param(FRESH, replace(IN_POD, name="net1"), False, id="without a record, its name"),
        pytest.param(
            FRESH, replace(IN_POD, perm_mac=PORT.mac), False, id="without a record, its address"
        ),
    ],
)
def test_hardware_in_the_pod_may_belong_to_another_claim(
    identity: DeviceIdentity,
    link: Link,
    is_another: bool,  # noqa: FBT001 - the expectation
) -> None:
    assert identity.is_another_in_pod(link, "net1") is is_another


def test_unclear_identity_is_reported_with_the_remedy() -> None:
    assert why_ambiguous(HARDWARE.device, ("a", "x (in the pod)")) == (
        "device pci-0000-8a-00-0-p1 (eth2) cannot be distinguished from other links: it may be a or"
        " x (in the pod); rename the right one to eth2 on the host"
    )


@pytest.mark.parametrize(("index", "identity"), [(3, True), (4, False)])
@pytest.mark.parametrize("name", ["mlx5_0", "hca0"])
def test_returned_rdma_device_is_identified_by_its_index(
    index: int, name: str, identity: object
) -> None:
    left = RdmaLink(3, "mlx5_0", "0c42:a103:0065:5a1e")
    observed = replace(left, index=index, name=name)

    assert (
        RdmaIdentity(HARDWARE.device.key, (), (RdmaLink(1, "smi0"), left)).has_left(observed)
        is identity
    )


@pytest.mark.parametrize(
    ("observed", "host", "pod"),
    [
        (Observed(), 0, 0),
        (Observed(host=LinkState(PORT)), 9, 0),
        (Observed(pod=LinkState(replace(PORT, index=4))), 0, 4),
    ],
)
def test_rdma_identity_follows_the_record_and_the_net_device(
    observed: Observed, host: int, pod: int
) -> None:
    left = RdmaLink(3, "mlx5_1")
    published = replace(ATTACHED.device, rdma_devices=("mlx5_1",))
    record = replace(ATTACHED, device=published, rdma=(left,), rdma_name="hca0")

    identity = rdma_identity(record, observed)

    assert identity == RdmaIdentity(published.key, ("mlx5_1",), (left,), "hca0", host, pod)
