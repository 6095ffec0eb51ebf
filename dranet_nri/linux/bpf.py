"""TCX programs of links (BPF, Linux 6.6), which netlink does not show.

Numbers are those of linux/bpf.h. Neither libc nor Python has a wrapper of bpf(2).
"""

import ctypes
import errno
import os
import platform
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Final

from dranet_nri.component.threads import set_step
from dranet_nri.errors import KernelError
from dranet_nri.model import TcxProgram, TcxSide

BPF_PROG_ATTACH: Final = 8
BPF_PROG_DETACH: Final = 9
BPF_PROG_GET_FD_BY_ID: Final = 13
BPF_OBJ_GET_INFO_BY_FD: Final = 15
BPF_PROG_QUERY: Final = 16
BPF_LINK_GET_FD_BY_ID: Final = 30
BPF_LINK_DETACH: Final = 34
_SIDES: Final = {TcxSide.INGRESS: 46, TcxSide.EGRESS: 47}  # BPF_TCX_INGRESS, BPF_TCX_EGRESS
_CALLS: Final = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
_MAX_PROGRAMS: Final = 64  # BPF_MPROG_MAX, programs on one side of a link

_QUERY: Final = struct.Struct("=IIIIQIIQQQQ")  # query of union bpf_attr
_COUNT_AT: Final = 24
_ATTACH: Final = struct.Struct("=III")  # target_ifindex, attach_bpf_fd and attach_type
_U32: Final = struct.Struct("=I")
_BY_ID_BYTES: Final = 12  # of prog_id or link_id, next_id and open_flags
_INFO: Final = struct.Struct("=IIQ")  # info of union bpf_attr
_INFO_BYTES: Final = 80  # of struct bpf_prog_info, as far as its name reaches
_NAME: Final = slice(64, 80)
NO_TCX: Final = frozenset({errno.EINVAL, errno.ENOSYS})
MAX_LOADED: Final = 1024  # detached programs; those of links that never return accumulate

_libc = ctypes.CDLL(None, use_errno=True)


def programs_on(index: int) -> tuple[TcxProgram, ...]:
    """Return a link's TCX programs in order, in the calling thread's network namespace.

    Raises:
        KernelError: ENODEV: the link does not exist; EINVAL: the kernel has no TCX; EPERM: needs
            CAP_NET_ADMIN.
    """
    return tuple(
        TcxProgram(side, number, link)
        for side in TcxSide
        for number, link in _program_ids(index, side)
    )


def detach(what: str, index: int, program: TcxProgram) -> None:
    """Detach a program from a link of the calling thread's namespace, if attached.

    A BPF link of it stays, pinned or not, without effect: its owner gets ENOLINK from the kernel.

    Raises:
        KernelError: EPERM: needs CAP_SYS_ADMIN.
    """
    query, number = (
        (BPF_LINK_GET_FD_BY_ID, program.link)
        if program.link
        else (BPF_PROG_GET_FD_BY_ID, program.id)
    )
    try:
        fd = _descriptor(what, number, query)
    except KernelError as error:
        if not error.already_gone:
            raise
        return
    try:
        if program.link:
            _bpf(what, BPF_LINK_DETACH, _U32.pack(fd))
        else:
            _bpf(what, BPF_PROG_DETACH, _ATTACH.pack(index, fd, _SIDES[program.side]))
    except KernelError as error:
        if not error.already_gone:
            raise
    finally:
        os.close(fd)


def attach(what: str, index: int, program: TcxProgram) -> None:
    """Attach a program to a link of the calling thread's namespace, after the others.

    Raises:
        KernelError: ENOENT: the program is no longer loaded; EPERM: needs CAP_SYS_ADMIN.
    """
    fd = _descriptor(what, program.id)
    try:
        _bpf(what, BPF_PROG_ATTACH, _ATTACH.pack(index, fd, _SIDES[program.side]))
    except KernelError as error:
        if error.code != errno.EEXIST:
            raise
    finally:
        os.close(fd)


class LoadedPrograms:
    """Descriptors of detached programs, which keep them loaded."""

    def __init__(self) -> None:
        """Start without descriptors."""
        self._descriptors: dict[int, int] = {}  # program id → descriptor
        self._lock = threading.Lock()

    def hold(self, what: str, program: TcxProgram) -> None:
        """Keep a program loaded, if it still is."""
        with self._lock:
            if program.id in self._descriptors:
                return
            try:
                self._descriptors[program.id] = _descriptor(what, program.id)
            except KernelError as error:
                if not error.already_gone:
                    raise
            if len(self._descriptors) > MAX_LOADED:
                os.close(self._descriptors.pop(next(iter(self._descriptors))))

    def release(self, program: TcxProgram) -> None:
        """Close the program's descriptor. Idempotent."""
        with self._lock:
            fd = self._descriptors.pop(program.id, None)
        if fd is not None:
            os.close(fd)


def tcx_names() -> dict[int, tuple[str, ...]]:
    """Return ifindex -> names of TCX programs, for links of the thread's network namespace.

    Links without a program are left out; the result is empty on a kernel without TCX. The name of
    an unnamed program is its id.

    Raises:
        KernelError: EPERM: needs CAP_NET_ADMIN, and CAP_SYS_ADMIN for names.
    """
    set_step("query TCX programs")
    found: dict[int, tuple[str, ...]] = {}
    for index, _ in socket.if_nameindex():
        try:
            numbers = {number for side in TcxSide for number, _ in _program_ids(index, side)}
        except KernelError as error:
            if error.code in NO_TCX:
                return {}
            if not error.already_gone:
                raise
            continue
        if names := sorted({name for number in numbers for name in _names(number)}):
            found[index] = tuple(names)
    return found


def _program_ids(index: int, side: TcxSide) -> tuple[tuple[int, int], ...]:
    """Return the id of each program, and of its BPF link, 0 without one."""
    ids, links = (ctypes.c_uint32 * _MAX_PROGRAMS)(), (ctypes.c_uint32 * _MAX_PROGRAMS)()
    places = ctypes.addressof(ids), ctypes.addressof(links)
    query = _QUERY.pack(index, _SIDES[side], 0, 0, places[0], _MAX_PROGRAMS, 0, 0, places[1], 0, 0)
    answer = ctypes.create_string_buffer(query, len(query))
    _bpf(f"query the TCX programs of link {index}", BPF_PROG_QUERY, answer)
    (count,) = _U32.unpack_from(answer, _COUNT_AT)
    return tuple(zip(ids[:count], links[:count], strict=True))


def _names(number: int) -> Iterator[str]:
    """Yield the program's name, its id if unnamed; nothing if it is gone."""
    what = f"query the name of BPF program {number}"
    try:
        fd = _descriptor(what, number)
    except KernelError as error:
        if not error.already_gone:
            raise
        return
    try:
        info = ctypes.create_string_buffer(_INFO_BYTES)
        _bpf(what, BPF_OBJ_GET_INFO_BY_FD, _INFO.pack(fd, _INFO_BYTES, ctypes.addressof(info)))
    finally:
        os.close(fd)
    name = info.raw[_NAME].split(b"\0", 1)[0].decode(errors="replace")
    yield name or str(number)


def _descriptor(what: str, number: int, query: int = BPF_PROG_GET_FD_BY_ID) -> int:
    """Return a descriptor of the program, or BPF link, of that id.

    Raises:
        KernelError: ENOENT: it is gone.
    """
    return _bpf(what, query, _U32.pack(number).ljust(_BY_ID_BYTES, b"\0"))


def _bpf(what: str, command: int, attr: bytes | ctypes.Array[ctypes.c_char]) -> int:
    """Call bpf(2); return its result.

    Args:
        what: name of the operation in errors.
        command: BPF_*.
        attr: the used part of union bpf_attr; a buffer if the kernel writes to it.

    Raises:
        KernelError: the call failed; ENOSYS: its number on this architecture is unknown.
    """
    number = _CALLS.get(platform.machine())
    if number is None:
        raise KernelError(what, errno.ENOSYS)
    result: int = _libc.syscall(number, command, attr, len(attr))
    if result < 0:
        raise KernelError(what, ctypes.get_errno())
    return result
