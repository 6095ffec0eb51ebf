"""BPF programs that the kernel runs on links by TCX (Linux 6.6), which netlink does not show.

Numbers are of linux/bpf.h. bpf(2) has neither a wrapper in libc nor one that Python ships.
"""

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Iterator
from typing import Final

from dranet_nri.errors import KernelError

BPF_PROG_GET_FD_BY_ID: Final = 13
BPF_OBJ_GET_INFO_BY_FD: Final = 15
BPF_PROG_QUERY: Final = 16
_SIDES: Final = (46, 47)  # BPF_TCX_INGRESS, BPF_TCX_EGRESS
_NUMBERS: Final = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
_MOST: Final = 64  # BPF_MPROG_MAX, programs on one side of a link

_QUERY: Final = struct.Struct("=IIIIQIIQQQQ")  # query of union bpf_attr
_COUNT_AT: Final = 24
_BY_ID_BYTES: Final = 12  # of prog_id, next_id and open_flags
_INFO: Final = struct.Struct("=IIQ")  # info of union bpf_attr
_INFO_BYTES: Final = 80  # of struct bpf_prog_info, as far as its name reaches
_NAME: Final = slice(64, 80)
_NO_TCX: Final = frozenset({errno.EINVAL, errno.ENOSYS})

_libc = ctypes.CDLL(None, use_errno=True)


def tcx_programs() -> dict[int, tuple[str, ...]]:
    """Return ifindex -> names of what runs by TCX, for links of the thread's network namespace.

    Links without a program are left out, so that it is empty on a kernel without TCX. A program
    that has no name is told by its number.

    Raises:
        KernelError: EPERM, it takes CAP_NET_ADMIN to ask and CAP_SYS_ADMIN to learn a name.
    """
    if platform.machine() not in _NUMBERS:
        return {}
    found: dict[int, tuple[str, ...]] = {}
    for index, _ in socket.if_nameindex():
        try:
            ids = {number for side in _SIDES for number in _ids(index, side)}
        except KernelError as error:
            if error.code in _NO_TCX:
                return {}
            if not error.already_gone:
                raise
            continue
        if names := sorted({name for number in ids for name in _names(number)}):
            found[index] = tuple(names)
    return found


def _ids(index: int, side: int) -> tuple[int, ...]:
    """Return the numbers of the programs on one side of a link.

    Raises:
        KernelError: EINVAL, the kernel has no TCX; ENODEV, the link is gone.
    """
    ids = (ctypes.c_uint32 * _MOST)()
    query = _QUERY.pack(index, side, 0, 0, ctypes.addressof(ids), _MOST, 0, 0, 0, 0, 0)
    answer = ctypes.create_string_buffer(query, len(query))
    _bpf(f"ask for the TCX programs of link {index}", BPF_PROG_QUERY, answer)
    (count,) = struct.unpack_from("=I", answer, _COUNT_AT)
    return tuple(ids[:count])


def _names(number: int) -> Iterator[str]:
    """Yield the program's name, its number if it has none; nothing if it is gone."""
    what = f"ask for the name of BPF program {number}"
    asked = ctypes.create_string_buffer(struct.pack("=I", number), _BY_ID_BYTES)
    try:
        fd = _bpf(what, BPF_PROG_GET_FD_BY_ID, asked)
    except KernelError as error:
        if not error.already_gone:
            raise
        return
    try:
        info = ctypes.create_string_buffer(_INFO_BYTES)
        question = _INFO.pack(fd, _INFO_BYTES, ctypes.addressof(info))
        _bpf(what, BPF_OBJ_GET_INFO_BY_FD, ctypes.create_string_buffer(question, len(question)))
    finally:
        os.close(fd)
    name = info.raw[_NAME].split(b"\0", 1)[0].decode(errors="replace")
    yield name or str(number)


def _bpf(what: str, command: int, attr: ctypes.Array[ctypes.c_char]) -> int:
    """Call bpf(2); return its result.

    Raises:
        KernelError: it failed.
    """
    result: int = _libc.syscall(_NUMBERS[platform.machine()], command, attr, len(attr))
    if result < 0:
        raise KernelError(what, ctypes.get_errno())
    return result
