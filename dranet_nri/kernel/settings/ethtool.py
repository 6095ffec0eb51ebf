"""Offload features, private flags and driver settings of a link: the netlink family "ethtool".

Numbers are those of linux/ethtool_netlink.h; features need Linux 5.7.
Feature numbers differ between kernels, so other modules use names. Every attach reads features, so
names and the family's number are requested once, and bit sets are requested as masks.
"""

import socket
import struct
from collections.abc import Callable, Collection
from errno import ENOENT, EOPNOTSUPP
from functools import lru_cache
from typing import Final, TypeVar

from dranet_nri.component.replace import replace
from dranet_nri.errors import KernelError
from dranet_nri.kernel.settings.driver import GROUPS, decoded, encoded, read_rss, write_rss
from dranet_nri.linux.netlink.codec import attribute, attributes, text, u32, walk
from dranet_nri.linux.netlink.generic import GENERIC, family_id
from dranet_nri.linux.netlink.socket import NetlinkSocket, enable_strict_checks
from dranet_nri.model import DriverSetting, EthtoolState, SettingGroup, Switches, switches

STRSET_GET: Final = 1  # ETHTOOL_MSG_*
FEATURES_GET, FEATURES_SET, PRIVFLAGS_GET, PRIVFLAGS_SET = 11, 12, 13, 14
A_HEADER: Final = 1  # of every message
A_HEADER_DEV_INDEX, A_HEADER_FLAGS = 1, 3
COMPACT_BITSETS, OMIT_REPLY = 1, 2  # ETHTOOL_FLAG_*
A_STRSET_STRINGSETS: Final = 2
A_STRINGSETS_STRINGSET: Final = 1
A_STRINGSET_ID, A_STRINGSET_STRINGS = 1, 3
A_STRING_INDEX, A_STRING_VALUE = 1, 2
ETH_SS_FEATURES: Final = 4
A_FEATURES_HW, A_FEATURES_WANTED, A_FEATURES_ACTIVE = 2, 3, 4
A_PRIVFLAGS_FLAGS: Final = 2
A_BITSET_NOMASK, A_BITSET_BITS, A_BITSET_VALUE = 1, 3, 4
A_BITSET_BITS_BIT: Final = 1
A_BITSET_BIT_NAME, A_BITSET_BIT_VALUE = 2, 3
NESTED: Final = 0x8000  # NLA_F_NESTED

MAX_CACHED: Final = 64  # decoded features; the links of a driver have the same

_U32: Final = struct.Struct("=I")

T = TypeVar("T")
_cache: dict[str, object] = {}  # answers that are constant while a kernel runs


def _once(what: str, request: Callable[[], T]) -> T:
    """Return the answer to a request that is sent once per process."""
    if what not in _cache:
        _cache[what] = request()
    return _cache[what]  # type: ignore[return-value]  # each key has one caller


class Ethtool:
    """Socket of the family in one namespace."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over an open socket of NETLINKGENERIC.

        Raises:
            KernelError: the kernel is older than 4.20; the socket is closed.
        """
        enable_strict_checks(sock)
        self._socket = sock
        self._netlink = NetlinkSocket(sock)

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._netlink.close()

    def state(self, what: str, index: int, groups: Collection[str] = ()) -> EthtoolState | None:
        """Return features, flags and settings of the link, None from a kernel without features.

        Args:
            what: name of the operation in errors.
            index: ifindex of the link.
            groups: driver settings to read in addition (SettingGroup).

        Raises:
            KernelError: ENODEV: the link does not exist; or the kernel refused.
        """
        try:
            state = self._state(what, index)
        except KernelError as error:
            if error.code in {ENOENT, EOPNOTSUPP}:
                return None  # Linux 5.5 and older have no such family, 5.6 no features in it
            raise
        if not groups:
            return state
        return replace(
            state,
            settings=tuple(
                setting
                for group in GROUPS
                if group in groups
                for setting in self._settings(what, index, group)
            ),
            rss=read_rss(self._socket, what, index) if SettingGroup.RSS in groups else None,
        )

    def _settings(self, what: str, index: int, group: SettingGroup) -> tuple[DriverSetting, ...]:
        try:
            found = self._query(what, GROUPS[group].get, _header(index))
        except KernelError as error:
            if error.code != EOPNOTSUPP:
                raise
            return ()  # the driver has none of the group, or the kernel no such message
        return tuple(decoded(group, found))

    def _state(self, what: str, index: int) -> EthtoolState:
        names = _once("features", self._feature_names)
        found = self._query(what, FEATURES_GET, _header(index, COMPACT_BITSETS))
        kinds = A_FEATURES_HW, A_FEATURES_WANTED, A_FEATURES_ACTIVE
        features, active = _features(names, *(found.get(kind, b"") for kind in kinds))
        return EthtoolState(features, active, private_flags=self._private_flags(what, index))

    def set_features(self, what: str, index: int, desired: Switches, *, strict: bool) -> None:
        """Switch features of a link.

        Args:
            what: name of the operation in errors.
            index: ifindex of the link.
            desired: features to switch on and off.
            strict: require that each is active or inactive afterwards: one may depend on another.

        Raises:
            KernelError: the kernel refused; EOPNOTSUPP: a feature did not change.
        """
        self._set(what, FEATURES_SET, index, A_FEATURES_WANTED, desired)
        if not strict:
            return
        active = self._state(what, index).active
        refused = Switches(
            tuple(name for name in desired.on if name not in active),
            tuple(name for name in desired.off if name in active),
        )
        if refused:
            detail = f"the device does not take {refused}; a feature may need another one"
            raise KernelError(what, EOPNOTSUPP, detail)

    def set_private_flags(self, what: str, index: int, desired: Switches) -> None:
        """Switch private flags of the driver.

        Raises:
            KernelError: the driver refused.
        """
        self._set(what, PRIVFLAGS_SET, index, A_PRIVFLAGS_FLAGS, desired)

    def set_driver(self, what: str, index: int, settings: tuple[DriverSetting, ...]) -> None:
        """Set driver settings of one group.

        Raises:
            KernelError: the driver refused.
        """
        group = SettingGroup(settings[0].group)
        body = GENERIC.pack(GROUPS[group].set, 1, 0) + _header(index, OMIT_REPLY)
        self._netlink.do(what, self._family(), 0, body + encoded(group, settings))

    def set_rss(self, what: str, index: int, table: tuple[int, ...]) -> None:
        """Set the indirection table of receive-side scaling, () for the driver's default.

        Raises:
            KernelError: the driver refused.
        """
        write_rss(self._socket, what, index, table)

    def _private_flags(self, what: str, index: int) -> Switches:
        try:
            found = self._query(what, PRIVFLAGS_GET, _header(index))
        except KernelError as error:
            if error.code != EOPNOTSUPP:
                raise
            return Switches()  # the driver has none
        return switches(_named(found.get(A_PRIVFLAGS_FLAGS, b"")))

    def _query(self, what: str, command: int, body: bytes) -> dict[int, bytes]:
        answer = self._netlink.get(what, self._family(), GENERIC.pack(command, 1, 0) + body)
        return attributes(answer, GENERIC.size)

    def _family(self) -> int:
        return _once("family", lambda: family_id(self._netlink, "ethtool"))

    def _feature_names(self) -> tuple[tuple[int, str], ...]:
        """Return bit and name of every feature of this kernel, sorted by name."""
        string_sets = attribute(A_STRINGSET_ID, _U32.pack(ETH_SS_FEATURES))
        body = attribute(A_HEADER | NESTED, b"") + attribute(
            A_STRSET_STRINGSETS | NESTED, attribute(A_STRINGSETS_STRINGSET | NESTED, string_sets)
        )
        found = self._query("read the names of features", STRSET_GET, body)
        sets = attributes(found.get(A_STRSET_STRINGSETS, b""))
        strings = attributes(sets.get(A_STRINGSETS_STRINGSET, b"")).get(A_STRINGSET_STRINGS, b"")
        rows = (attributes(string) for _, string in walk(strings))
        names = ((text(row.get(A_STRING_VALUE)), u32(row.get(A_STRING_INDEX))) for row in rows)
        return tuple((1 << number, name) for name, number in sorted(names))

    def _set(self, what: str, command: int, index: int, kind: int, desired: Switches) -> None:
        states = {**dict.fromkeys(desired.on, True), **dict.fromkeys(desired.off, False)}
        bits = b"".join(_bit(name, on=on) for name, on in states.items())
        bitset = attribute(A_BITSET_BITS | NESTED, bits)
        body = GENERIC.pack(command, 1, 0) + _header(index, OMIT_REPLY)
        self._netlink.do(what, self._family(), 0, body + attribute(kind | NESTED, bitset))


def _header(index: int, flags: int = 0) -> bytes:
    fields = attribute(A_HEADER_DEV_INDEX, _U32.pack(index))
    fields += attribute(A_HEADER_FLAGS, _U32.pack(flags)) if flags else b""
    return attribute(A_HEADER | NESTED, fields)


def _bit(name: str, *, on: bool) -> bytes:
    fields = attribute(A_BITSET_BIT_NAME, name.encode() + b"\0")
    fields += attribute(A_BITSET_BIT_VALUE, b"") if on else b""
    return attribute(A_BITSET_BITS_BIT | NESTED, fields)


@lru_cache(MAX_CACHED)
def _features(
    names: tuple[tuple[int, str], ...], hardware: bytes, wanted: bytes, active: bytes
) -> tuple[Switches, tuple[str, ...]]:
    """Return the features that can change, and those that are active.

    Args:
        names: bit and name of every feature.
        hardware, wanted, active: the bit sets of a link.
    """
    changeable, requested, on = (
        _mask(attributes(bitset).get(A_BITSET_VALUE, b"")) for bitset in (hardware, wanted, active)
    )
    switches = Switches(
        tuple(name for bit, name in names if changeable & requested & bit),
        tuple(name for bit, name in names if changeable & ~requested & bit),
    )
    return switches, tuple(name for bit, name in names if on & bit)


def _mask(words: bytes) -> int:
    """Return a bit set from its 32-bit words, the lowest first."""
    return sum(word << 32 * place for place, (word,) in enumerate(_U32.iter_unpack(words)))


def _named(bitset: bytes) -> dict[str, bool]:
    """Return name -> state of a bit set; one without a mask lists only bits that are on."""
    found = attributes(bitset)
    listed = A_BITSET_NOMASK in found
    states: dict[str, bool] = {}
    for _, bit in walk(found.get(A_BITSET_BITS, b"")):
        fields = attributes(bit)
        states[text(fields.get(A_BITSET_BIT_NAME))] = listed or A_BITSET_BIT_VALUE in fields
    return states
