"""Driver settings: messages of the netlink family "ethtool", and ethtool ioctls for RSS.

Numbers are those of linux/ethtool_netlink.h and linux/ethtool.h. A reply has only settings that the
driver supports. Netlink can set an indirection table since Linux 6.17, ioctls in all versions; they
work on any socket, for its network namespace.
"""

import ctypes
import fcntl
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from errno import EOPNOTSUPP
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.linux.netlink.codec import attribute, u8, u32
from dranet_nri.model import DriverSetting, RssState, SettingGroup

SIOCGIFNAME, SIOCETHTOOL = 0x8910, 0x8946  # linux/sockios.h
ETHTOOL_GRXRINGS, ETHTOOL_GRSSH, ETHTOOL_SRSSH = 0x2D, 0x46, 0x47
RXNFC_LEN: Final = 256  # of struct ethtool_rxnfc, rounded up
RXNFC_DATA_AT: Final = 8
_IFREQ: Final = struct.Struct("=16sQ16x")  # struct ifreq: name, address of the data
_IFREQ_INDEX: Final = struct.Struct("=16si20x")
# struct ethtool_rxfh: command, context, entries, bytes of the key, hash function, transformation.
_RXFH: Final = struct.Struct("=IIIIBB2xI")
_U8: Final = struct.Struct("=B")
_U32: Final = struct.Struct("=I")


@dataclass(frozen=True, slots=True)
class GroupMessages:
    """Messages of one group of settings.

    Attributes:
        get, set: numbers of the messages (ETHTOOL_MSG_*).
        numbers: attribute of each setting, of 32 bits.
        switches: attribute of each setting, of 8 bits.
        maxima: offset from a setting's attribute down to that of its maximum, 0 without one.
    """

    get: int
    set: int
    numbers: dict[str, int]
    switches: dict[str, int]
    maxima: int = 0


GROUPS: Final = {
    SettingGroup.RINGS: GroupMessages(15, 16, {"rx": 6, "rxMini": 7, "rxJumbo": 8, "tx": 9}, {}, 4),
    SettingGroup.CHANNELS: GroupMessages(
        17, 18, {"rx": 6, "tx": 7, "other": 8, "combined": 9}, {}, 4
    ),
    SettingGroup.COALESCE: GroupMessages(
        19,
        20,
        {
            "rxUsecs": 2,
            "rxFrames": 3,
            "rxUsecsIrq": 4,
            "rxFramesIrq": 5,
            "txUsecs": 6,
            "txFrames": 7,
            "txUsecsIrq": 8,
            "txFramesIrq": 9,
        },
        {"adaptiveRx": 11, "adaptiveTx": 12},
    ),
    SettingGroup.PAUSE: GroupMessages(21, 22, {}, {"autoneg": 2, "rx": 3, "tx": 4}),
}


def decoded(group: SettingGroup, found: dict[int, bytes]) -> Iterator[DriverSetting]:
    """Yield the settings of a reply."""
    messages = GROUPS[group]
    for name, kind in messages.numbers.items():
        if kind in found:
            maximum = u32(found.get(kind - messages.maxima)) if messages.maxima else 0
            yield DriverSetting(f"{group}.{name}", u32(found[kind]), maximum)
    for name, kind in messages.switches.items():
        if kind in found:
            yield DriverSetting(f"{group}.{name}", u8(found[kind]))


def encoded(group: SettingGroup, settings: tuple[DriverSetting, ...]) -> bytes:
    """Return the attributes of a request."""
    messages, body = GROUPS[group], b""
    for setting in settings:
        name = setting.name.partition(".")[2]
        if name in messages.switches:
            body += attribute(messages.switches[name], _U8.pack(setting.value))
        else:
            body += attribute(messages.numbers[name], _U32.pack(setting.value))
    return body


def read_rss(sock: socket.socket, what: str, index: int) -> RssState | None:
    """Return the indirection table of a link, None if its driver has none.

    Raises:
        KernelError: ENODEV, there is no such link; or the kernel refused.
    """
    name = _name_of(sock, what, index)
    try:
        head, table = _read_table(sock, what, name)
    except KernelError as error:
        if error.code != EOPNOTSUPP:
            raise
        return None
    if not head[2]:
        return None
    rings = bytearray(RXNFC_LEN)
    _U32.pack_into(rings, 0, ETHTOOL_GRXRINGS)
    _ethtool(sock, what, name, rings)
    return RssState(table, _U32.unpack_from(rings, RXNFC_DATA_AT)[0])


def write_rss(sock: socket.socket, what: str, index: int, table: tuple[int, ...]) -> None:
    """Set the indirection table of a link, () for the driver's default.

    The hash function, its transformation and its key stay as they are.

    Raises:
        KernelError: EINVAL, the table has another length or names a queue that is not there.
    """
    name = _name_of(sock, what, index)
    transformation = _read_table(sock, what, name)[0][5]
    request = bytearray(_RXFH.pack(ETHTOOL_SRSSH, 0, len(table), 0, 0, transformation, 0))
    request += struct.pack(f"={len(table)}I", *table)
    _ethtool(sock, what, name, request)


def _read_table(
    sock: socket.socket, what: str, name: bytes
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return struct ethtool_rxfh of a link, and the table behind it, without the key."""
    head = bytearray(_RXFH.pack(ETHTOOL_GRSSH, 0, 0, 0, 0, 0, 0))
    _ethtool(sock, what, name, head)
    entries = _RXFH.unpack(head)[2]
    whole = bytearray(_RXFH.pack(ETHTOOL_GRSSH, 0, entries, 0, 0, 0, 0)) + bytearray(4 * entries)
    if entries:
        _ethtool(sock, what, name, whole)
    table = struct.unpack_from(f"={entries}I", whole, _RXFH.size)
    return _RXFH.unpack_from(whole if entries else head), table


def _ethtool(sock: socket.socket, what: str, name: bytes, data: bytearray) -> None:
    buffer = (ctypes.c_char * len(data)).from_buffer(data)
    _ioctl(sock, what, SIOCETHTOOL, bytearray(_IFREQ.pack(name, ctypes.addressof(buffer))))


def _name_of(sock: socket.socket, what: str, index: int) -> bytes:
    request = bytearray(_IFREQ_INDEX.pack(b"", index))
    _ioctl(sock, what, SIOCGIFNAME, request)
    name: bytes = _IFREQ_INDEX.unpack(request)[0]
    return name


def _ioctl(sock: socket.socket, what: str, number: int, request: bytearray) -> None:
    try:
        fcntl.ioctl(sock, number, request)
    except OSError as error:
        raise KernelError(what, error.errno or 0, error.strerror or "") from None
