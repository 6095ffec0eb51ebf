"""BPF programs for tests, loaded and attached by bpf(2).

`python3 -m tests.system.kernel.bpf LINK NAME [FILTER]` has a program of that name look at what a
link receives, by TCX, until the link is gone. With FILTER, a filter of tc of that name does, too.
"""

import ctypes
import os
import platform
import socket
import struct
import sys
from typing import Final

from pyroute2 import IPRoute

from tests.capability import lacking

NUMBER: Final = {"x86_64": 321, "aarch64": 280}  # of bpf(2)
BPF_PROG_LOAD: Final = 5
BPF_PROG_ATTACH: Final = 8
BPF_LINK_CREATE: Final = 28
SCHED_CLS: Final = 3  # BPF_PROG_TYPE_SCHED_CLS
XDP: Final = 6  # BPF_PROG_TYPE_XDP
TCX_INGRESS: Final = 46
TCX_EGRESS: Final = 47
CLSACT_INGRESS: Final = 0xFFFFFFF2
TCM_IFINDEX_MAGIC_BLOCK: Final = -1
ETH_P_ALL: Final = 0x0003
GO_ON: Final = -1  # TCX_NEXT: what runs after it decides
_MOST: Final = 120  # bytes of union bpf_attr that we fill in

_libc = ctypes.CDLL(None, use_errno=True)


def load(kind: int, verdict: int, name: str = "") -> int:
    """Return the descriptor of a program that returns the verdict."""
    code = ctypes.create_string_buffer(struct.pack("=BBhiBBhi", 0xB7, 0, 0, verdict, 0x95, 0, 0, 0))
    licence = ctypes.create_string_buffer(b"GPL")
    addresses = (ctypes.addressof(code), ctypes.addressof(licence))
    attr = struct.pack("=IIQQIIQII16s", kind, 2, *addresses, 0, 0, 0, 0, 0, name.encode())
    return _bpf(BPF_PROG_LOAD, attr)


def attach_tcx(link: str, name: str = "", side: int = TCX_INGRESS) -> None:
    """Attach a program of that name to a link of this thread's namespace."""
    program = load(SCHED_CLS, GO_ON, name)
    _bpf(BPF_PROG_ATTACH, struct.pack("=III", socket.if_nametoindex(link), program, side))
    os.close(program)


def hold_tcx(link: str, name: str = "", side: int = TCX_INGRESS) -> int:
    """Attach by a BPF link; return its descriptor, whose close detaches the program."""
    program = load(SCHED_CLS, GO_ON, name)
    held = _bpf(BPF_LINK_CREATE, struct.pack("=III", program, socket.if_nametoindex(link), side))
    os.close(program)
    return held


def attach_filter(link: str, name: str) -> None:
    """Attach an ingress tc filter of that name to a link of this thread's namespace."""
    with IPRoute() as ip:
        index = ip.link_lookup(ifname=link)[0]
        ip.tc("add", "clsact", index)
        _add_filter(ip, index, CLSACT_INGRESS, name)


def attach_to_block(block: int, name: str) -> None:
    """Attach a tc filter of that name to a block that links of this thread's namespace share."""
    with IPRoute() as ip:
        _add_filter(ip, TCM_IFINDEX_MAGIC_BLOCK, block, name)


def _add_filter(ip: IPRoute, index: int, parent: int, name: str) -> None:
    program = load(SCHED_CLS, GO_ON)
    ip.tc("add-filter", "bpf", index, fd=program, name=name, parent=parent, protocol=ETH_P_ALL)
    os.close(program)


def _bpf(command: int, attr: bytes) -> int:
    padded = attr.ljust(_MOST, b"\0")
    result: int = _libc.syscall(NUMBER[platform.machine()], command, padded, len(padded))
    if result < 0:
        reason = os.strerror(ctypes.get_errno())
        lacking(f"bpf(2) ({reason})", "run as root on Linux 6.6 or newer")
    return result


if __name__ == "__main__":
    attach_tcx(sys.argv[1], sys.argv[2])
    for given in sys.argv[3:]:
        attach_filter(sys.argv[1], given)
