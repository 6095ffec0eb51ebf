"""The shim's part of the state under its deployed privileges: uid 0 without capabilities.

Reads attachments below a read-only mount, writes allocations, and prints what it saw. Every
attempt to change anything below the other's directory is reported, whether it succeeds or not.
"""

import json
import os
import sys
from pathlib import Path

from dranet_nri.state.reader import AttachmentReader
from dranet_nri.state.store import AllocationStore
from tests.dranet_nri.state.examples import allocation_of

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod"}
CHANGES |= {"os.chown", "os.truncate", "os.utime", "os.setxattr"}


def say(text: str) -> None:
    """Write one line to the test that started us."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def capabilities() -> list[str]:
    """Return our sets of capabilities, in hexadecimal digits."""
    status = Path("/proc/self/status").read_text()
    return [line.split()[1] for line in status.splitlines() if line.startswith(("CapE", "CapP"))]


def main(allocations: Path, attachments: Path) -> None:
    """Use both directories and report."""
    attempts: list[str] = []

    def listen(event: str, arguments: tuple[object, ...]) -> None:
        if event in CHANGES:
            attempts.append(f"{event} {arguments[0]!r}")
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & WRITES:
            attempts.append(f"open for writing {arguments[0]!r}")

    sys.addaudithook(listen)
    with AttachmentReader(attachments) as reader:
        say("ready")
        sys.stdin.readline()
        touched = reader.refresh()
        reader.rescan()
        observed = [record.claim.uid for record in reader.records()]
        broken = {key: item.name for key, item in reader.broken.items()}
    reads = list(attempts)

    with AllocationStore(allocations) as store:
        store.put(allocation_of("a"))
        store.put(allocation_of("b"))
        store.remove("b")
        (allocations / "c.json").write_bytes(b"broken")
        store.refresh()
        quarantined = store.broken["c"].name

    report = {
        "uid": os.getuid(),
        "capabilities": capabilities(),
        "touched": sorted(touched),
        "seen": observed,
        "broken": broken,
        "attempts": reads,
        "quarantined": quarantined,
        "writable": os.access(attachments, os.W_OK),
    }
    say(json.dumps(report))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
