"""A daemon as a process, against a runtime on a real socket. No NIC of the machine is touched."""

import asyncio
import subprocess
import sys
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from dranet_nri.facts.host import boot_id
from dranet_nri.model import AllocatedDevice, Allocation, Attachment, Device, DeviceKey, ObjectRef
from dranet_nri.state.reader import AttachmentReader
from dranet_nri.state.store import AllocationStore
from tests.fakes.runtime import RuntimeConnection, RuntimeServer

ROOT = Path(__file__).parents[3]
CLAIM = ObjectRef("default", "nics", "claim-nics")


@dataclass
class Site:
    """The directories of one daemon, none of them the machine's."""

    root: Path

    @property
    def socket(self) -> Path:
        """Return where the runtime listens."""
        return self.root / "nri.sock"

    @property
    def run(self) -> Path:
        """Return the daemon's own directory."""
        return self.root / "run"

    def words(self, *flags: str) -> list[str]:
        """Return the arguments of the program; the last flag takes precedence."""
        return [
            *("run", "--nri-socket", str(self.socket), "--run-dir", str(self.run)),
            *("--allocations-dir", str(self.root / "allocations")),
            *("--cdi-dir", str(self.root / "cdi")),
            *flags,
        ]

    def command(self, *flags: str) -> list[str]:
        """Return the command of a child process."""
        return [sys.executable, "-m", "dranet_nri", *self.words(*flags)]

    def allocate(self, pod_uid: str) -> None:
        """Record a claim for a NIC that this machine doesn't have."""
        key = DeviceKey("pci", "ffff:ff:1f.7", "nosuchnic0", "ffff:ff:1f.7")
        device = AllocatedDevice("nic", "node", Device("nosuchnic", key))
        pod = ObjectRef("default", "pod-s1", pod_uid)
        store = AllocationStore(self.root / "allocations")
        store.put(Allocation(CLAIM, pod, (device,), "c0ffee", boot_id()))
        store.close()

    def attachment(self) -> Attachment | None:
        """Return the attachment that the daemon recorded for the claim."""
        with AttachmentReader(self.run / "attachments", owner=None) as records:
            return records.get(CLAIM.uid)


def daemon(site: Site, *flags: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """Run a daemon; kill what is left of it."""
    return launched(site.command(*flags))


@contextmanager
def launched(command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Run a command; kill what is left of it."""
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end; return status and log."""
    _, log = process.communicate(timeout=30)
    return process.returncode, log


def until_logged(process: subprocess.Popen[str], text: str) -> str:
    """Read the log up to a line with text; return that line."""
    assert process.stderr is not None
    return next(line for line in process.stderr if text in line)


def run_scenario(scenario: Coroutine[object, object, None]) -> None:
    """Run a test's coroutine."""
    asyncio.run(scenario)


async def connected(server: RuntimeServer, process: subprocess.Popen[str]) -> RuntimeConnection:
    """Return a plugin that has shaken hands; fail with its log if it ends instead."""
    arrival = asyncio.ensure_future(server.connection())
    end = asyncio.ensure_future(asyncio.to_thread(process.wait))
    await asyncio.wait({arrival, end}, return_when=asyncio.FIRST_COMPLETED)
    if not arrival.done():
        assert process.stderr is not None
        pytest.fail(f"the daemon ended: {process.stderr.read()}")
    runtime = arrival.result()
    await runtime.handshake()
    return runtime
