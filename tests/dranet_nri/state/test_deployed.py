"""The state as deployed: uid 0 without capabilities, the other's directory mounted read-only."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dranet_nri.state.reader import AllocationReader
from dranet_nri.state.store import AttachmentStore
from tests.capability import lacking
from tests.dranet_nri.state.directories import put_file, tree
from tests.dranet_nri.state.examples import allocation_of, attachment_of

pytestmark = pytest.mark.process


ROOT = Path(__file__).parents[3]
SCRIPT = """
set -e
mount --bind "$2" "$2"
mount -o remount,bind,ro "$2"
exec setpriv --bounding-set=-all --inh-caps=-all --ambient-caps=-all --no-new-privs \
    "$3" -m tests.dranet_nri.state.state_as_deployed "$1" "$2"
"""


@pytest.fixture(scope="module")
def _namespaces() -> None:
    """Make sure that a private mount namespace can be had."""
    tools = all(shutil.which(tool) for tool in ("unshare", "setpriv", "mount"))
    works = (
        tools
        and os.geteuid() == 0
        and subprocess.run(["unshare", "--mount", "true"], check=False).returncode == 0
    )
    if not works:
        lacking("a private mount namespace", "run as root, with unshare and setpriv of util-linux")


@pytest.mark.usefixtures("_namespaces")
def test_shim_without_capabilities_writes_its_own_records_and_only_reads_the_others(
    tmp_path: Path,
) -> None:
    allocations, attachments = tmp_path / "allocations", tmp_path / "attachments"
    allocations.mkdir(mode=0o750)
    with AttachmentStore(attachments) as plugin:
        plugin.put(attachment_of("before"))
        put_file(attachments, "broken.json", b"broken")
        command = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", SCRIPT]
        with subprocess.Popen(
            [*command, "sh", allocations, attachments, sys.executable],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        ) as shim:
            assert shim.stdout is not None
            assert shim.stdout.readline() == "ready\n"
            put_file(attachments, "after.json", (attachments / "before.json").read_bytes())
            before = tree(attachments)
            out, _ = shim.communicate("go on\n")
        report = json.loads(out)

        assert report == {
            "uid": 0,
            "capabilities": ["0000000000000000", "0000000000000000"],
            "touched": ["after"],
            "seen": ["before"],
            "broken": {"broken": "broken.json", "after": "after.json"},
            "attempts": [],
            "quarantined": "quarantine/c.json.1",
            "writable": False,
        }
        assert tree(attachments) == before

    with AllocationReader(allocations, owner=0) as reader:
        assert reader.records() == (allocation_of("a"),)
        assert reader.broken["c"].name == "quarantine/c.json.1"
