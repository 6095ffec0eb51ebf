"""XDP programs for tests: loaded by bpf(2), attached over netlink as `ip link set xdp` does it."""

import ctypes
import os
import platform
import socket
import struct
from contextlib import closing
from typing import Final

from dranet_nri.kernel.links import IFLA_XDP_FD, IFLA_XDP_FLAGS, NLA_F_NESTED, XDP_FLAGS
from dranet_nri.kernel.netns import run_inside
from dranet_nri.model import XdpMode
from dranet_nri.netlink.codec import attribute
from dranet_nri.netlink.links import IFLA_XDP, INFO
from dranet_nri.netlink.rtnetlink import NETLINK_ROUTE, prepared
from tests.capability import lacking

BPF: Final = {"x86_64": 321, "aarch64": 280}  # the number of bpf(2)
BPF_PROG_LOAD: Final = 5
BPF_PROG_TYPE_XDP: Final = 6
PASS: Final = struct.pack("=BBhiBBhi", 0xB7, 0, 0, 2, 0x95, 0, 0, 0)  # r0 = XDP_PASS; exit
RTM_NEWLINK: Final = 16

_libc = ctypes.CDLL(None, use_errno=True)


def attach(nsfd: int, name: str, mode: XdpMode) -> None:
    """Attach a program that lets everything pass to a link of that namespace.

    It stays on the link without a descriptor.
    """

    def body() -> None:
        program = _load()
        try:
            with closing(prepared(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))) as netlink:
                fields = attribute(IFLA_XDP_FD, struct.pack("=i", program))
                fields += attribute(IFLA_XDP_FLAGS, struct.pack("=I", XDP_FLAGS[mode]))
                link = INFO.pack(0, 0, socket.if_nametoindex(name), 0, 0)
                request = link + attribute(IFLA_XDP | NLA_F_NESTED, fields)
                netlink.do(f"attach XDP to {name}", RTM_NEWLINK, 0, request)
        finally:
            os.close(program)

    assert NETLINK_ROUTE == 0
    run_inside(nsfd, body)


def _load() -> int:
    """Return the descriptor of a program."""
    code, licence = ctypes.create_string_buffer(PASS), ctypes.create_string_buffer(b"GPL")
    attr = struct.pack(
        "=IIQQ",
        BPF_PROG_TYPE_XDP,
        len(PASS) // 8,
        ctypes.addressof(code),
        ctypes.addressof(licence),
    ).ljust(120, b"\0")
    fd: int = _libc.syscall(BPF[platform.machine()], BPF_PROG_LOAD, attr, len(attr))
    if fd < 0:
        lacking("bpf(2)", f"{os.strerror(ctypes.get_errno())}; run as root")
    return fd
