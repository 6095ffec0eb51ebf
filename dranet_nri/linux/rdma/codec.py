"""Codec of NETLINK_RDMA messages. Numbers: rdma/rdma_netlink.h.

Rules:
1. Malformed bytes raise KernelError EBADMSG only.
2. Attributes of newer kernels are skipped.
3. Attributes directly follow struct nlmsghdr.
"""

from collections.abc import Mapping
from errno import EBADMSG
from typing import Final

from dranet_nri.errors import InvalidValueError, KernelError
from dranet_nri.linux.netlink.codec import U32, attribute, attributes, text, u8, u32, u64
from dranet_nri.linux.rdma.types import (
    CharDev,
    CharDevKind,
    RdmaDevice,
    RdmaEvent,
    RdmaPort,
    RdmaSystem,
)
from dranet_nri.model import RdmaMode

MAX_NAME: Final = 63  # IB_DEVICE_NAME_MAX - 1; the kernel truncates a longer name silently

_CLIENT: Final = 5 << 10  # RDMA_NL_NLDEV
GET: Final = _CLIENT + 1
SET: Final = _CLIENT + 2
PORT_GET: Final = _CLIENT + 5
SYS_GET: Final = _CLIENT + 6
SYS_SET: Final = _CLIENT + 7
GET_CHARDEV: Final = _CLIENT + 15
MONITOR: Final = _CLIENT + 28
GROUP_NOTIFY: Final = 4

DEV_INDEX: Final = 1
DEV_NAME: Final = 2
PORT_INDEX: Final = 3
NODE_GUID: Final = 6
NDEV_INDEX: Final = 50
NDEV_NAME: Final = 51
SYS_NETNS_MODE: Final = 66
DEV_PROTOCOL: Final = 67
NET_NS_FD: Final = 68
CHARDEV_TYPE: Final = 69
CHARDEV_NAME: Final = 70
CHARDEV: Final = 72
PARENT_NAME: Final = 100
EVENT_TYPE: Final = 102
SYS_MONITOR_MODE: Final = 103

_EVENTS: Final = {
    0: RdmaEvent.REGISTER,
    1: RdmaEvent.UNREGISTER,
    2: RdmaEvent.NETDEV_ATTACH,
    3: RdmaEvent.NETDEV_DETACH,
    4: RdmaEvent.RENAME,
    5: RdmaEvent.NETDEV_RENAME,
}
_MODES: Final = {0: RdmaMode.EXCLUSIVE, 1: RdmaMode.SHARED}

_Attributes = Mapping[int, bytes]


# --------------------------------------------------------------------------- requests


def encode_index(index: int) -> bytes:
    """Return the body of a GET of one device, or of a PORT_GET dump of its ports."""
    return attribute(DEV_INDEX, U32.pack(index))


def encode_rename(index: int, name: str) -> bytes:
    """Return the body of a SET that renames.

    Raises:
        InvalidValueError: the kernel would truncate or refuse the name.
    """
    written = name.encode(errors="surrogateescape")
    if not 0 < len(written) <= MAX_NAME or b"/" in written or b"\0" in written:
        raise InvalidValueError(
            f"RDMA device name {name!r}: must be 1 to {MAX_NAME} bytes without / and NUL"
        )
    return encode_index(index) + attribute(DEV_NAME, written + b"\0")


def encode_move(index: int, target_fd: int) -> bytes:
    """Return the body of a SET that moves to the namespace of a descriptor.

    It has no name attribute: up to Linux 7.2 the kernel then renames without a move.
    """
    return encode_index(index) + attribute(NET_NS_FD, U32.pack(target_fd))


def encode_mode(mode: RdmaMode) -> bytes:
    """Return the body of a SYS_SET of the mode."""
    return attribute(SYS_NETNS_MODE, bytes([mode is RdmaMode.SHARED]))


def encode_char_device(kind: CharDevKind, index: int, port: int) -> bytes:
    """Return the body of a GET_CHARDEV; index and port are left out if the kind has none.

    The kernel refuses rdma_cm with a device index, and umad without a port.
    """
    body = attribute(CHARDEV_TYPE, kind.encode() + b"\0")
    if kind.per_device:
        body += encode_index(index)
    if kind.per_port:
        body += attribute(PORT_INDEX, U32.pack(port))
    return body


# --------------------------------------------------------------------------- answers


def decode_device(body: bytes) -> RdmaDevice:
    """Return the device of one GET answer.

    Raises:
        KernelError: EBADMSG: the message is malformed.
    """
    attrs = attributes(body)
    return RdmaDevice(
        index=u32(_needed(attrs, DEV_INDEX, "device index")),
        name=_name(attrs, DEV_NAME, "device name"),
        node_guid=_guid(attrs.get(NODE_GUID)),
        protocol=text(attrs.get(DEV_PROTOCOL)),
        parent=text(attrs.get(PARENT_NAME)),
    )


def decode_port(body: bytes) -> RdmaPort:
    """Return the port of one PORT_GET answer.

    Raises:
        KernelError: EBADMSG: the message is malformed.
    """
    attrs = attributes(body)
    return RdmaPort(
        index=u32(_needed(attrs, DEV_INDEX, "device index")),
        device=_name(attrs, DEV_NAME, "device name"),
        port=u32(_needed(attrs, PORT_INDEX, "port number")),
        netdev_index=u32(attrs.get(NDEV_INDEX)),
        netdev=text(attrs.get(NDEV_NAME)),
    )


def decode_system(body: bytes) -> RdmaSystem:
    """Return the values of a SYS_GET answer.

    Raises:
        KernelError: EBADMSG: its mode is unknown.
    """
    attrs = attributes(body)
    mode = u8(_needed(attrs, SYS_NETNS_MODE, "namespace mode"))
    if mode not in _MODES:
        raise _broken(f"namespace mode {mode}")
    return RdmaSystem(
        mode=_MODES[mode],
        monitor=u8(attrs.get(SYS_MONITOR_MODE)) != 0,
    )


def decode_char_device(kind: CharDevKind, body: bytes) -> CharDev:
    """Return the character device of a GET_CHARDEV answer, which does not have its kind.

    Raises:
        KernelError: EBADMSG: the message is malformed.
    """
    attrs = attributes(body)
    number = u64(_needed(attrs, CHARDEV, "device number"))
    return CharDev(
        kind=kind,
        name=_name(attrs, CHARDEV_NAME, "file name"),
        # huge_encode_dev, linux/kdev_t.h: 12 bits of major amid 20 of minor.
        major=number >> 8 & 0xFFF,
        minor=number & 0xFF | number >> 12 & 0xFFF00,
    )


def decode_event(body: bytes) -> RdmaEvent:
    """Return the event of one MONITOR message.

    Raises:
        KernelError: EBADMSG: the message is malformed.
    """
    kind = u8(_needed(attributes(body), EVENT_TYPE, "event type"))
    return _EVENTS.get(kind, RdmaEvent.OTHER)


def _needed(attrs: _Attributes, kind: int, what: str) -> bytes:
    if kind not in attrs:
        raise _broken(f"no {what}")
    return attrs[kind]


def _name(attrs: _Attributes, kind: int, what: str) -> str:
    name = text(_needed(attrs, kind, what))
    if not name:
        raise _broken(f"an empty {what}")
    return name


def _guid(data: bytes | None) -> str:
    """Return a GUID in the form of sysfs, "" if absent."""
    if data is None:
        return ""
    digits = f"{u64(data):016x}"
    return ":".join(digits[start : start + 4] for start in range(0, 16, 4))


def _broken(detail: str) -> KernelError:
    return KernelError("read an RDMA netlink message", EBADMSG, detail)
