"""Generic netlink: numbers of its families, which the kernel assigns at run time."""

import struct
from typing import Final

from dranet_nri.linux.netlink.codec import attribute, attributes
from dranet_nri.linux.netlink.socket import NetlinkSocket

NETLINK_GENERIC: Final = 16
GENERIC: Final = struct.Struct("=BBH")  # struct genlmsghdr: command, version, reserved

# linux/genetlink.h
_GENL_ID_CTRL: Final = 16
_CTRL_CMD_GETFAMILY: Final = 3
_CTRL_ATTR_FAMILY_ID: Final = 1
_CTRL_ATTR_FAMILY_NAME: Final = 2
_U16: Final = struct.Struct("=H")


def family_id(netlink: NetlinkSocket, name: str) -> int:
    """Return the number of a family. The request may load the module of that name.

    Raises:
        KernelError: ENOENT: there is no such family.
    """
    body = GENERIC.pack(_CTRL_CMD_GETFAMILY, 1, 0)
    body += attribute(_CTRL_ATTR_FAMILY_NAME, name.encode() + b"\0")
    answer = netlink.get(f"look up {name} in the kernel", _GENL_ID_CTRL, body)
    number: int = _U16.unpack(attributes(answer, GENERIC.size)[_CTRL_ATTR_FAMILY_ID])[0]
    return number
