"""Encoding and decoding without a recording: InfiniBand, newer kernels, malformed bytes."""

import struct
from collections.abc import Callable
from contextlib import suppress
from errno import EBADMSG

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dranet_nri.errors import InvalidValueError, KernelError
from dranet_nri.linux.netlink.codec import attribute
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


def u8(kind: int, value: int) -> bytes:
    return attribute(kind, bytes([value]))


def u32(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=I", value))


def u64(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("=Q", value))


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


HANDLE = u32(codec.DEV_INDEX, 3) + text(codec.DEV_NAME, "mlx5_0")


# --------------------------------------------------------------------------- devices and ports


def test_infiniband_device_is_decoded_in_full() -> None:
    body = HANDLE + b"".join(
        (
            u64(codec.NODE_GUID, 0x0C42A10300655A1E),
            text(codec.DEV_PROTOCOL, "ib"),
            text(codec.PARENT_NAME, "mlx5_9"),
            attribute(1000, b"a newer kernel's"),
        )
    )

    assert codec.decode_device(body) == RdmaDevice(
        index=3,
        name="mlx5_0",
        node_guid="0c42:a103:0065:5a1e",
        protocol="ib",
        parent="mlx5_9",
    )


def test_device_without_optional_attributes_is_decoded() -> None:
    assert codec.decode_device(HANDLE) == RdmaDevice(index=3, name="mlx5_0")


def test_infiniband_port_is_decoded() -> None:
    body = HANDLE + u32(codec.PORT_INDEX, 1)

    assert codec.decode_port(body) == RdmaPort(index=3, device="mlx5_0", port=1)


# --------------------------------------------------------------------------- the system


@pytest.mark.parametrize("flag", [0, 1])
def test_system_mode_and_monitor_flag_are_decoded(flag: int) -> None:
    body = u8(codec.SYS_NETNS_MODE, flag) + u8(codec.SYS_MONITOR_MODE, flag)
    mode = RdmaMode.SHARED if flag else RdmaMode.EXCLUSIVE

    assert codec.decode_system(body) == RdmaSystem(mode, bool(flag))


def test_older_kernel_has_no_monitor() -> None:
    reported = codec.decode_system(codec.encode_mode(RdmaMode.SHARED))

    assert reported == RdmaSystem(RdmaMode.SHARED, monitor=False)


# --------------------------------------------------------------------------- character devices


@pytest.mark.parametrize(
    ("number", "major", "minor"),
    [
        pytest.param(0xE7C0, 231, 192, id="small"),
        pytest.param(0x00100A04, 10, 260, id="minor-above-255"),
        pytest.param(0xFFFFFFFF, 0xFFF, 0xFFFFF, id="largest"),
    ],
)
def test_device_number_is_decoded_as_the_kernel_encodes_it(
    number: int, major: int, minor: int
) -> None:
    body = text(codec.CHARDEV_NAME, "uverbs0") + u64(codec.CHARDEV, number)

    found = codec.decode_char_device(CharDevKind.UVERBS, body)

    assert found == CharDev(CharDevKind.UVERBS, "uverbs0", major, minor)
    assert found.path == "/dev/infiniband/uverbs0"


# --------------------------------------------------------------------------- events


def test_event_is_decoded_from_its_type() -> None:
    body = HANDLE + text(codec.NDEV_NAME, "eth0") + u8(codec.EVENT_TYPE, 3)

    assert codec.decode_event(body) is RdmaEvent.NETDEV_DETACH


def test_event_type_of_a_newer_kernel_is_decoded_as_other() -> None:
    assert codec.decode_event(u8(codec.EVENT_TYPE, 200)) is RdmaEvent.OTHER


# --------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", ["x", "x" * 63, "mlx5_0"])
def test_valid_name_is_encoded_unchanged(name: str) -> None:
    assert codec.encode_rename(3, name).endswith(text(codec.DEV_NAME, name))


@pytest.mark.parametrize("name", ["", "x" * 64, "ü" * 32, "a/b", "a\0b"])
def test_name_that_the_kernel_would_change_is_refused(name: str) -> None:
    with pytest.raises(InvalidValueError, match="must be 1 to 63 bytes without / and NUL"):
        codec.encode_rename(3, name)


# --------------------------------------------------------------------------- broken bytes

PORT = HANDLE + u32(codec.PORT_INDEX, 1)
FILE = text(codec.CHARDEV_NAME, "uverbs0") + u64(codec.CHARDEV, 0xE7C0)


def as_uverbs(body: bytes) -> CharDev:
    return codec.decode_char_device(CharDevKind.UVERBS, body)


Decoder = Callable[[bytes], object]


@pytest.mark.parametrize(
    ("decode", "body", "message"),
    [
        pytest.param(codec.decode_device, b"", "no device index", id="nothing"),
        pytest.param(codec.decode_device, HANDLE[:8], "no device name", id="no-name"),
        pytest.param(
            codec.decode_device,
            HANDLE[:8] + text(codec.DEV_NAME, ""),
            "an empty device name",
            id="empty-name",
        ),
        pytest.param(
            codec.decode_device, attribute(codec.DEV_INDEX, b"12"), "2 bytes, not 4", id="index"
        ),
        pytest.param(
            codec.decode_device,
            HANDLE + attribute(codec.NODE_GUID, b"1234"),
            "4 bytes, not 8",
            id="guid",
        ),
        pytest.param(
            codec.decode_event, attribute(codec.EVENT_TYPE, b""), "0 bytes, not 1", id="event"
        ),
        pytest.param(codec.decode_port, HANDLE, "no port number", id="port"),
        pytest.param(
            codec.decode_port,
            PORT + attribute(codec.NDEV_INDEX, b"1"),
            "1 bytes, not 4",
            id="net-device",
        ),
        pytest.param(codec.decode_system, b"", "no namespace mode", id="no-mode"),
        pytest.param(
            codec.decode_system, u8(codec.SYS_NETNS_MODE, 2), "namespace mode 2", id="mode"
        ),
        pytest.param(as_uverbs, FILE[:12], "no device number", id="no-number"),
        pytest.param(as_uverbs, FILE[12:], "no file name", id="no-file"),
        pytest.param(codec.decode_event, HANDLE, "no event type", id="no-event"),
    ],
)
def test_malformed_bytes_are_a_kernel_error_with_the_missing_part(
    decode: Decoder, body: bytes, message: str
) -> None:
    with pytest.raises(KernelError, match=message) as caught:
        decode(body)

    assert caught.value.code == EBADMSG


DECODERS: tuple[Decoder, ...] = (
    codec.decode_device,
    codec.decode_port,
    codec.decode_system,
    as_uverbs,
    codec.decode_event,
)
KINDS = st.sampled_from([*range(16), 50, 51, *range(66, 73), 96, 100, 102, 103])
BODIES = st.binary(max_size=64) | st.lists(
    st.builds(attribute, KINDS, st.binary(max_size=9)), max_size=12
).map(b"".join)


@given(BODIES, st.sampled_from(DECODERS))
def test_any_bytes_are_a_value_or_a_kernel_error(body: bytes, decode: Decoder) -> None:
    with suppress(KernelError):
        decode(body)
