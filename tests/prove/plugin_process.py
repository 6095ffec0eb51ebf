"""Real plugin in a process that kills itself right after its n-th event.

An event is whatever leaves a trace outside of the process: an operation on the kernel, done or
refused; a record about to be written or removed; a file of a record or of the gate created, staged,
renamed or removed. What happens between two events, only the process's memory knows, so that dying
after each event once is dying everywhere.
"""

from __future__ import annotations

import asyncio
import ctypes
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from dranet_nri.attach.records import AttachmentRecords
from dranet_nri.cdi.gate import Gate
from dranet_nri.component.files import FileSystem
from dranet_nri.component.log import configure
from dranet_nri.daemon.process import NriDaemon
from dranet_nri.kernel.session import NetlinkSession
from dranet_nri.model import Attachment
from dranet_nri.plan.ops import Op
from dranet_nri.state import heartbeat
from dranet_nri.telemetry.heartbeat import METRICS
from tests.box.waiting import SLOWDOWN
from tests.prove.site import Site

END_S: Final = 60.0 * SLOWDOWN
_MADV_POPULATE_WRITE: Final = 23  # include/uapi/asm-generic/mman-common.h
_libc: Final = ctypes.CDLL(None)


class CrashTrigger:
    """Counts the events while the site is armed, and kills the process after the n-th."""

    def __init__(self, site: Site, last: int, word: str) -> None:
        """Kill after event number last of those that have the word in them, never if it is 0."""
        self._site = site
        self._last = last
        self._word = word
        self._count = 0
        self._lock = threading.Lock()

    def count_event(self, event: str) -> None:
        """Count one event."""
        if not self._last or self._word not in event or not self._site.armed.exists():
            return
        with self._lock:
            self._count += 1
            if self._count == self._last:
                self._site.died.write_text(event)
                os.kill(os.getpid(), signal.SIGKILL)


def install(trigger: CrashTrigger) -> None:
    """Count every event of this process."""
    _count_kernel_operations(trigger.count_event)
    _count_records(trigger.count_event)
    _count_files(trigger.count_event)


def _count_kernel_operations(count_event: Callable[[str], None]) -> None:
    plain = NetlinkSession.apply

    def apply(session: NetlinkSession, op: Op) -> None:
        try:
            plain(session, op)
        finally:
            count_event(str(op))

    NetlinkSession.apply = apply  # type: ignore[method-assign, assignment]


def _count_records(count_event: Callable[[str], None]) -> None:
    plain_put, plain_remove = AttachmentRecords.put, AttachmentRecords.remove

    def put(records: AttachmentRecords, attachment: Attachment) -> None:
        count_event(f"about to record {attachment.phase}")
        plain_put(records, attachment)

    def remove(records: AttachmentRecords, claim_uid: str) -> None:
        count_event("about to forget the claim")
        plain_remove(records, claim_uid)

    AttachmentRecords.put = put  # type: ignore[method-assign, assignment]
    AttachmentRecords.remove = remove  # type: ignore[method-assign, assignment]


def _count_files(count_event: Callable[[str], None]) -> None:
    plain_create, plain_write, plain_replace, plain_unlink = (
        FileSystem.create,
        FileSystem.write,
        FileSystem.replace,
        FileSystem.unlink,
    )
    plain_close = Gate.close

    def count(what: str, path: Path) -> None:
        if not any(name in path.name for name in (heartbeat.NAME, METRICS)):
            count_event(f"{what} {path.parent.name}/{path.name}")

    def create(fs: FileSystem, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
        plain_create(fs, path, data, mode, durable=durable)
        count("created", path)

    def write(fs: FileSystem, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
        plain_write(fs, path, data, mode, durable=durable)
        count("staged", path)

    def replace(fs: FileSystem, source: Path, target: Path) -> None:
        plain_replace(fs, source, target)
        count("renamed", target)

    def unlink(fs: FileSystem, path: Path) -> None:
        there = path.exists()
        plain_unlink(fs, path)
        if there:
            count("removed", path)

    def close(gate: Gate, claim_uid: str) -> None:
        plain_close(gate, claim_uid)
        count_event("closed the gate")

    FileSystem.create = create  # type: ignore[method-assign, assignment]
    FileSystem.write = write  # type: ignore[method-assign, assignment]
    FileSystem.replace = replace  # type: ignore[method-assign, assignment]
    FileSystem.unlink = unlink  # type: ignore[method-assign, assignment]
    Gate.close = close  # type: ignore[method-assign, assignment]


def copy_inherited_memory() -> None:
    """Copy all pages that this process shares with the process that forked it.

    On User Mode Linux a page fault takes 0.1 ms, and a forked plugin has some thousands of them.
    """
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, flags, *_ = line.split()
        if flags == "rw-p":
            start, end = (int(address, 16) for address in addresses.split("-"))
            # The kernel may refuse a mapping; its pages are copied by faults, as without this.
            size = ctypes.c_size_t(end - start)
            _libc.madvise(ctypes.c_void_p(start), size, _MADV_POPULATE_WRITE)


os.register_at_fork(after_in_child=copy_inherited_memory)  # in the server that forks the plugins


def serve(site: Site, last: int, word: str) -> None:
    """Run the plugin until it is stopped or the trigger kills it."""
    site.log.parent.mkdir(parents=True, exist_ok=True)
    log = os.open(site.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    configure(json=False, verbose=True)
    install(CrashTrigger(site, last, word))
    asyncio.run(NriDaemon(site.settings, {}).run())


class PluginProcess:
    """A running plugin of the site."""

    def __init__(self, process: BaseProcess) -> None:
        """Watch process."""
        self._process = process

    @property
    def pid(self) -> int:
        """Return its process id."""
        assert self._process.pid is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.is_alive()

    def stop(self) -> int:
        """End it as the kubelet does; return its status."""
        self._process.terminate()
        return self.ended()

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self.ended()

    def ended(self) -> int:
        """Wait for its end; return its status.

        Raises:
            TimeoutError: it goes on.
        """
        self._process.join(END_S)
        if self._process.exitcode is None:
            raise TimeoutError("the plugin does not end")
        return self._process.exitcode


@contextmanager
def plugin(site: Site, last: int = 0, word: str = "") -> Iterator[PluginProcess]:
    """Run a plugin, and kill what is left of it.

    It dies after event number last of those that have the word in them, if that is not 0.

    It is forked from a server that has imported everything, because on an emulated machine the
    imports take longer than the whole row.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    process = context.Process(target=serve, args=(site, last, word), daemon=True)
    process.start()
    plugin_process = PluginProcess(process)
    try:
        yield plugin_process
    finally:
        plugin_process.kill()
