"""Replay of recorded conversations with a real kernel: equal requests, decoded answers.

The recordings are tests/golden/rdma, made by tests/dranet_nri/linux/rdma/record.py.
"""

from errno import EBADF, EBUSY, EEXIST, EINVAL, ENODEV, EOPNOTSUPP, EPERM

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.socket import messages
from dranet_nri.linux.rdma import codec
from dranet_nri.linux.rdma.types import (
    CharDev,
    CharDevKind,
    RdmaDevice,
    RdmaEvent,
    RdmaPort,
    RdmaSystem,
)
from dranet_nri.model import RdmaMode
from tests.dranet_nri.linux.rdma.conversation import (
    GOLDEN,
    answers,
    recording,
    replayed,
    replayed_lines,
)
from tests.dranet_nri.linux.rdma.scenarios import ALL

RXE0 = RdmaDevice(
    index=0,
    name="rxe0",
    node_guid="5054:00ff:fe00:0000",
    protocol="roce",
)


def recorded_rxe1() -> RdmaDevice:
    """Return rxe1, whose GUID was drawn by chance."""
    return codec.decode_device(next(messages(answers("device")[0])).body)


def test_every_recording_is_tested() -> None:
    assert {path.stem for path in GOLDEN.glob("*.txt")} == {*ALL, "events"}


def test_dump_contains_every_device() -> None:
    assert replayed("devices").devices("host") == (RXE0, recorded_rxe1())


def test_device_is_looked_up_by_index() -> None:
    device = replayed("device").device_at("look at rxe1", 1)

    assert (device.index, device.name, device.protocol) == (1, "rxe1", "roce")


def test_port_has_its_net_device() -> None:
    assert replayed("ports").ports("dump ports of rxe0", 0) == (
        RdmaPort(0, "rxe0", 1, netdev_index=7, netdev="ens1"),
    )


@pytest.mark.parametrize("mode", RdmaMode)
def test_rdma_mode_is_decoded(mode: RdmaMode) -> None:
    assert replayed(f"system-{mode}").system() == RdmaSystem(mode, monitor=True)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("uverbs", CharDev(CharDevKind.UVERBS, "uverbs1", 231, 193)),
        ("umad", CharDev(CharDevKind.UMAD, "umad1", 231, 1)),
        ("rdma-cm", CharDev(CharDevKind.RDMA_CM, "rdma_cm", 10, 260)),
        ("no-issm", None),
    ],
)
def test_character_devices_have_their_numbers(name: str, found: CharDev | None) -> None:
    assert ALL[name](replayed(name)) == found


@pytest.mark.parametrize("name", ["rename", "set-exclusive"])
def test_accepted_change_returns(name: str) -> None:
    ALL[name](replayed(name))


@pytest.mark.parametrize(
    ("name", "code", "expected"),
    [
        ("no-device", ENODEV, "look at rxe9: ENODEV (no RDMA device has index 99"),
        ("no-ports", ENODEV, "dump ports of rxe9: ENODEV (no RDMA device has index 99"),
        ("uverbs-of-nobody", ENODEV, "no RDMA device has index 99"),
        ("umad-of-no-port", EINVAL, "find umad: EINVAL (the device has no such port)"),
        ("rename-taken", EEXIST, "rename renamed: EEXIST (another RDMA device has that name"),
        ("rename-nobody", ENODEV, "rename rxe9: ENODEV (no RDMA device has index 99"),
        ("rename-forbidden", EPERM, "needs CAP_NET_ADMIN in the host's user namespace"),
        ("move-shared", EOPNOTSUPP, "options ib_core netns_mode=0"),
        ("move-unsupported", EOPNOTSUPP, "its driver cannot move devices between namespaces"),
        ("move-unsupported", EOPNOTSUPP, "if it is software, delete it (rdma link delete)"),
        ("move-to-no-namespace", EINVAL, "the target is no network namespace"),
        ("move-to-nothing", EBADF, "the target is no open descriptor"),
        ("move-nobody", ENODEV, "move rxe9: ENODEV (no RDMA device has index 99"),
        ("set-shared-busy", EBUSY, "other network namespaces exist"),
    ],
)
def test_refused_change_is_reported_with_meaning_and_remedy(
    name: str, code: int, expected: str
) -> None:
    with pytest.raises(KernelError) as caught:
        ALL[name](replayed(name))

    assert caught.value.code == code
    assert expected in str(caught.value)


def test_added_changed_and_removed_devices_are_decoded_from_events() -> None:
    found = [
        codec.decode_event(message.body)
        for data in answers("events")
        for message in messages(data)
        if message.kind == codec.MONITOR
    ]

    assert found == [
        *[RdmaEvent.REGISTER, RdmaEvent.NETDEV_ATTACH] * 3,
        RdmaEvent.RENAME,
        RdmaEvent.NETDEV_RENAME,
        RdmaEvent.UNREGISTER,
    ]


# --------------------------------------------------------------------------- other refusals


def refusing(name: str, code: int) -> list[str]:
    """Return a recording whose first answer is another refusal."""
    lines = recording(name)
    data = bytes.fromhex(lines[1][2:])
    error = data[:16] + (-code).to_bytes(4, "little", signed=True) + data[20:]
    return [lines[0], f"< {error.hex()}", *lines[2:]]


@pytest.mark.parametrize("name", ["no-device", "no-ports"])
def test_lookup_refused_for_another_reason_is_reported(name: str) -> None:
    with pytest.raises(KernelError, match="EPERM") as caught:
        ALL[name](replayed_lines(refusing(name, EPERM)))

    assert caught.value.code == EPERM


def test_refusal_is_unchanged_if_the_device_cannot_be_looked_up() -> None:
    (requested, refused) = recording("move-nobody")[:2]
    query, denied = refusing("no-device", EPERM)
    # The look is the second request of the session.
    second = [query[:18] + "02" + query[20:], denied[:18] + "02" + denied[20:]]

    with pytest.raises(KernelError, match="the target is no network namespace") as caught:
        ALL["move-nobody"](replayed_lines([requested, refused, *second]))

    assert caught.value.code == EINVAL


def test_unsupported_move_is_reported_if_the_mode_cannot_be_read() -> None:
    (requested, refused, query, _) = recording("move-unsupported")
    denied = f"< {bytes.fromhex(refused[2:])[:8].hex()}02{refused[20:]}"

    with pytest.raises(KernelError) as caught:
        ALL["move-unsupported"](replayed_lines([requested, refused, query, denied]))

    error = caught.value
    assert (error.op, error.code, error.detail) == ("move rxe0", EOPNOTSUPP, "")
