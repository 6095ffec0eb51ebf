"""IPoIB children: requests to the kernel, and lookup of created children.

No kernel here has an InfiniBand port. The requests are held to those of iproute2 6.1
(`ip link add link lo name dra123 type ipoib pkey 0x8001 mode datagram`, `… type ipoib mode
connected` and `ip link set lo type ipoib mode connected umcast 0`, seen with strace).
"""

import os
from collections.abc import Iterator
from errno import EINVAL, ENOTUNIQ, EOPNOTSUPP
from pathlib import Path

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.kernel import child
from dranet_nri.kernel.links import MoveEnd, set_settings
from dranet_nri.kernel.namespace import Namespace
from dranet_nri.kernel.netns import run_inside
from dranet_nri.linux.netlink.codec import walk
from dranet_nri.linux.netlink.links import INFO
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket, open_here
from dranet_nri.model import IpoibConfig, IpoibMode, IpoibState, Ns
from dranet_nri.plan.child import alias_of, generated_name
from dranet_nri.plan.ops import AddChild, LinkSettings
from tests.system.kernel.namespaces import add_veth, new_netns

ALIAS = alias_of("uid-1", "pci-0000-8a-00-0")
OP = AddChild(Ns.HOST, 1, "dra123", ALIAS, IpoibConfig(0x8001))
CONNECTED = AddChild(Ns.HOST, 1, "dra123", ALIAS, IpoibConfig(mode=IpoibMode.CONNECTED))
# Type and payload of each attribute, those of IFLA_LINKINFO and IFLA_INFO_DATA unfolded.
EITHER = {(5,): b"\x01\x00\x00\x00", (3,): b"dra123\0", (18, 1): b"ipoib"}
IPROUTE2 = [
    pytest.param(
        OP, EITHER | {(18, 2, 1): b"\x01\x80", (18, 2, 2): b"\x00\x00"}, id="datagram, pkey"
    ),
    pytest.param(CONNECTED, EITHER | {(18, 2, 2): b"\x01\x00"}, id="connected, no pkey"),
]
NESTS = {(18,), (18, 2)}


class Recorder(RtnetlinkSocket):
    """A real socket that keeps what it is asked to change, and then sends it."""

    def __init__(self, netlink: RtnetlinkSocket) -> None:
        self.netlink = netlink
        self.requests: list[tuple[int, int, bytes]] = []

    def do(self, what: str, kind: int, flags: int, body: bytes) -> None:
        self.requests.append((kind, flags, body))
        self.netlink.do(what, kind, flags, body)


class Refusing(RtnetlinkSocket):
    """A socket whose requests the kernel answers with an errno."""

    def __init__(self, code: int) -> None:
        self.code = code

    def do(self, what: str, kind: int, flags: int, body: bytes) -> None:
        raise KernelError(what, self.code)


def unfolded(data: bytes, path: tuple[int, ...] = ()) -> Iterator[tuple[tuple[int, ...], bytes]]:
    for kind, payload in walk(data):
        if (*path, kind) in NESTS:
            yield from unfolded(payload, (*path, kind))
        else:
            yield (*path, kind), payload


@pytest.fixture
def space(nsfd: int) -> Iterator[Namespace]:
    space = Namespace(Ns.HOST, os.dup(nsfd), "/proc")
    yield space
    space.close()


@pytest.mark.parametrize(("op", "expected"), IPROUTE2)
def test_ipoib_request_is_that_of_iproute2(
    nsfd: int, op: AddChild, expected: dict[tuple[int, ...], bytes]
) -> None:
    recorder = Recorder(run_inside(nsfd, open_here))

    with pytest.raises(KernelError):  # the kind is unknown, or lo is no parent
        child.add(recorder, MoveEnd(recorder.netlink, nsfd), str(op), op)
    recorder.netlink.close()

    ((kind, flags, body),) = recorder.requests
    assert (kind, flags) == (16, 0x600)  # RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL
    assert body[: INFO.size] == bytes(INFO.size)
    requested = dict(unfolded(body[INFO.size :]))
    requested[18, 1] = requested[18, 1].rstrip(b"\0")
    assert requested == expected


@pytest.mark.parametrize(
    ("op", "code", "message"),
    [
        pytest.param(CONNECTED, EINVAL, "set interface.ipoib.mode to datagram", id="connected"),
        pytest.param(OP, EINVAL, r"EINVAL$", id="datagram"),
        pytest.param(OP, EOPNOTSUPP, "load the module ib_ipoib", id="no module"),
        pytest.param(CONNECTED, ENOTUNIQ, "created by sysfs; delete that one", id="twice"),
    ],
)
def test_refused_request_is_reported_with_the_remedy(op: AddChild, code: int, message: str) -> None:
    refusing = Refusing(code)
    with pytest.raises(KernelError, match=message):
        child.add(refusing, MoveEnd(refusing, -1), str(op), op)


def test_ipoib_mode_request_is_that_of_iproute2(nsfd: int) -> None:
    recorder = Recorder(run_inside(nsfd, open_here))

    with pytest.raises(KernelError):  # lo is no IPoIB link
        set_settings(recorder, "set", 1, LinkSettings(ipoib=IpoibState(connected=True)))
    recorder.netlink.close()

    ((kind, flags, body),) = recorder.requests
    assert (kind, flags) == (16, 0)  # RTM_NEWLINK
    assert body[: INFO.size] == INFO.pack(0, 0, 1, 0, 0)
    requested = dict(unfolded(body[INFO.size :]))
    requested[18, 1] = requested[18, 1].rstrip(b"\0")
    assert requested == {(18, 1): b"ipoib", (18, 2, 2): b"\x01\x00", (18, 2, 3): b"\x00\x00"}


def test_existing_child_link_gets_its_alias(nsfd: int, space: Namespace) -> None:
    add_veth(nsfd, "dra123", nsfd)  # like a child it refers to another link of its namespace

    child.add(space.netlink, MoveEnd(space.netlink, space.fd), str(OP), OP)

    assert child.children(space) == ((ALIAS, space.index("look", "dra123")),)


def test_link_without_a_parent_on_the_host_is_no_child_despite_its_alias(
    nsfd: int, space: Namespace
) -> None:
    wire = new_netns()
    add_veth(nsfd, "eth1", wire)
    set_settings(space.netlink, "arrange", space.index("look", "eth1"), LinkSettings(alias=ALIAS))

    assert child.children(space) == ()
    os.close(wire)


def test_child_is_found_by_alias_or_first_name_and_deleted_once(
    nsfd: int, space: Namespace
) -> None:
    wire = new_netns()
    add_veth(nsfd, "net1", wire)
    add_veth(nsfd, generated_name(ALIAS), wire)
    set_settings(space.netlink, "arrange", space.index("look", "net1"), LinkSettings(alias=ALIAS))

    found = child.observe_child(space, None, ALIAS)
    assert found.host is not None
    index = found.host.link.index
    child.delete(space.netlink, "delete", index)
    child.delete(space.netlink, "delete", index)
    space.invalidate()
    second = child.observe_child(space, None, ALIAS)
    os.close(wire)

    assert found.host.link.name == "net1"
    assert second.host is not None
    assert second.host.link.name == generated_name(ALIAS)
    assert child.observe_child(space, None, alias_of("uid-2", "x")).host is None


def test_pkey_table_is_read_in_the_order_of_the_port(tmp_path: Path) -> None:
    keys = {1: (0xFFFF, 0x8001, *[0] * 8, 0x8005), 2: (0xFFFF, 0x8002)}
    for port, table in keys.items():
        folder = tmp_path / f"class/infiniband/mlx5_0/ports/{port}/pkeys"
        folder.mkdir(parents=True)
        for slot, key in enumerate(table):
            (folder / str(slot)).write_text(f"0x{key:04x}\n")

    assert {port: child.pkeys(str(tmp_path), "mlx5_0", port) for port in keys} == keys
    assert child.pkeys(str(tmp_path), "mlx5_0", 3) == ()
    assert child.pkeys(str(tmp_path), "mlx5_1", 1) == ()
