"""Offload features and private flags of a link, over the kernel's generic netlink family "ethtool".

Numbers are those of linux/ethtool_netlink.h and linux/genetlink.h; features need Linux 5.7. The
kernel tells sets by name here: numbers of features differ from kernel to kernel.
"""

import struct
from contextlib import closing
from errno import EOPNOTSUPP
from typing import Final

from dranet_nri.errors import KernelError
from dranet_nri.kernel.netns import socket_in
from dranet_nri.model import EthtoolState, Switches, switches
from dranet_nri.netlink.codec import attribute, attributes, text, walk
from dranet_nri.netlink.socket import Netlink, demand_answers

NETLINK_GENERIC: Final = 16
GENL_ID_CTRL: Final = 16
CTRL_CMD_GETFAMILY: Final = 3
CTRL_ATTR_FAMILY_ID: Final = 1
CTRL_ATTR_FAMILY_NAME: Final = 2
FAMILY: Final = b"ethtool\0"

FEATURES_GET, FEATURES_SET, PRIVFLAGS_GET, PRIVFLAGS_SET = 11, 12, 13, 14  # ETHTOOL_MSG_*
A_HEADER: Final = 1  # of every message
A_HEADER_DEV_INDEX, A_HEADER_FLAGS = 1, 3
OMIT_REPLY: Final = 2  # ETHTOOL_FLAG_OMIT_REPLY
A_FEATURES_HW, A_FEATURES_WANTED, A_FEATURES_ACTIVE = 2, 3, 4
A_PRIVFLAGS_FLAGS: Final = 2
A_BITSET_NOMASK, A_BITSET_BITS = 1, 3
A_BITSET_BITS_BIT: Final = 1
A_BITSET_BIT_NAME, A_BITSET_BIT_VALUE = 2, 3
NESTED: Final = 0x8000  # NLA_F_NESTED

_GENERIC: Final = struct.Struct("=BBH")  # struct genlmsghdr: command, version, reserved
_U16: Final = struct.Struct("=H")
_U32: Final = struct.Struct("=I")


class Ethtool:
    """A socket of one namespace that speaks to the family. Used by one thread, then closed."""

    def __init__(self, nsfd: int) -> None:
        """Enter the namespace, open the socket and look the family up.

        Raises:
            KernelError: ENOENT, the kernel is older than 5.6.
        """
        sock = socket_in(nsfd, NETLINK_GENERIC)
        demand_answers(sock)
        self._netlink = Netlink(sock)
        body = _GENERIC.pack(CTRL_CMD_GETFAMILY, 1, 0) + attribute(CTRL_ATTR_FAMILY_NAME, FAMILY)
        what = "look up ethtool in the kernel"
        try:
            found = attributes(self._netlink.get(what, GENL_ID_CTRL, body), _GENERIC.size)
        except BaseException:
            self.close()
            raise
        (self._family,) = _U16.unpack(found[CTRL_ATTR_FAMILY_ID])

    def close(self) -> None:
        """Close the socket. Idempotent."""
        self._netlink.close()

    def state(self, what: str, index: int) -> EthtoolState:
        """Return what the link of that index has.

        Raises:
            KernelError: there is no such link, or the kernel refused.
        """
        found = self._get(what, FEATURES_GET, index)
        changeable, wanted, active = (
            {name for name, on in _named(found.get(kind, b"")).items() if on}
            for kind in (A_FEATURES_HW, A_FEATURES_WANTED, A_FEATURES_ACTIVE)
        )
        return EthtoolState(
            features=switches({name: name in wanted for name in changeable}),
            active=tuple(sorted(active & changeable)),
            private_flags=self._private_flags(what, index),
        )

    def set_features(self, what: str, index: int, wanted: Switches) -> None:
        """Switch features; names that the kernel does not know are an error.

        Raises:
            KernelError: the kernel refused.
        """
        self._set(what, FEATURES_SET, index, A_FEATURES_WANTED, wanted)

    def set_private_flags(self, what: str, index: int, wanted: Switches) -> None:
        """Switch flags of the driver's own.

        Raises:
            KernelError: the driver refused.
        """
        self._set(what, PRIVFLAGS_SET, index, A_PRIVFLAGS_FLAGS, wanted)

    def _private_flags(self, what: str, index: int) -> Switches:
        try:
            found = self._get(what, PRIVFLAGS_GET, index)
        except KernelError as error:
            if error.code != EOPNOTSUPP:
                raise
            return Switches()  # the driver has none
        return switches(_named(found.get(A_PRIVFLAGS_FLAGS, b"")))

    def _get(self, what: str, command: int, index: int) -> dict[int, bytes]:
        body = _GENERIC.pack(command, 1, 0) + _header(index)
        return attributes(self._netlink.get(what, self._family, body), _GENERIC.size)

    def _set(self, what: str, command: int, index: int, kind: int, wanted: Switches) -> None:
        states = {**dict.fromkeys(wanted.on, True), **dict.fromkeys(wanted.off, False)}
        bits = b"".join(_bit(name, on=on) for name, on in states.items())
        bitset = attribute(A_BITSET_BITS | NESTED, bits)
        body = _GENERIC.pack(command, 1, 0) + _header(index, OMIT_REPLY)
        self._netlink.do(what, self._family, 0, body + attribute(kind | NESTED, bitset))


def observe(nsfd: int, what: str, index: int) -> EthtoolState:
    """Return what a link has in the namespace of that descriptor.

    Raises:
        KernelError: there is no such link, or the kernel refused.
    """
    with closing(Ethtool(nsfd)) as ethtool:
        return ethtool.state(what, index)


def set_features(nsfd: int, what: str, index: int, wanted: Switches, *, strict: bool) -> None:
    """Switch features of a link.

    Args:
        nsfd: descriptor of its namespace.
        what: how errors call it.
        index: of the link.
        wanted: what shall be on and off.
        strict: whether each must be at work, or not, afterwards: one may need another.

    Raises:
        KernelError: the kernel refused; EOPNOTSUPP, the device takes one only with another.
    """
    with closing(Ethtool(nsfd)) as ethtool:
        ethtool.set_features(what, index, wanted)
        active = set(ethtool.state(what, index).active) if strict else set(wanted.on)
    refused = Switches(
        tuple(name for name in wanted.on if name not in active),
        tuple(name for name in wanted.off if name in active),
    )
    if refused:
        detail = f"the device does not take {refused}; a feature may need another one"
        raise KernelError(what, EOPNOTSUPP, detail)


def set_private_flags(nsfd: int, what: str, index: int, wanted: Switches) -> None:
    """Switch private flags of a link.

    Raises:
        KernelError: the driver refused.
    """
    with closing(Ethtool(nsfd)) as ethtool:
        ethtool.set_private_flags(what, index, wanted)


def _header(index: int, flags: int = 0) -> bytes:
    fields = attribute(A_HEADER_DEV_INDEX, _U32.pack(index))
    fields += attribute(A_HEADER_FLAGS, _U32.pack(flags)) if flags else b""
    return attribute(A_HEADER | NESTED, fields)


def _bit(name: str, *, on: bool) -> bytes:
    fields = attribute(A_BITSET_BIT_NAME, name.encode() + b"\0")
    fields += attribute(A_BITSET_BIT_VALUE, b"") if on else b""
    return attribute(A_BITSET_BITS_BIT | NESTED, fields)


def _named(bitset: bytes) -> dict[str, bool]:
    """Return the bits of a set by name; one without a mask lists those only that are on."""
    found = attributes(bitset)
    listed = A_BITSET_NOMASK in found
    states: dict[str, bool] = {}
    for _, bit in walk(found.get(A_BITSET_BITS, b"")):
        fields = attributes(bit)
        states[text(fields.get(A_BITSET_BIT_NAME))] = listed or A_BITSET_BIT_VALUE in fields
    return states
