"""`dra-shim allocate` beside a daemon, which would drop its records as orphans."""

import subprocess
from pathlib import Path

import pytest

from dra_shim.settings.common import StatePaths
from dranet_nri.state.lock import PluginLock
from tests.dra_shim.commands.shim_bench import ENVIRONMENT, command

pytestmark = pytest.mark.process


INVENTORY = """{"devices": [{"name": "nic-1", "attributes": {}, "rdmaDevices": []}],
"excluded": []}"""
MANIFESTS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: any}
spec: {}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: fast, namespace: default}
spec:
  devices:
    requests:
    - name: nic
      exactly: {deviceClassName: any}
"""


def allocate(directory: Path) -> subprocess.CompletedProcess[str]:
    (directory / "inventory.json").write_text(INVENTORY)
    (directory / "claim.yaml").write_text(MANIFESTS)
    flags = ("--claim", "claim.yaml", "--pod", "p1", "--inventory", "inventory.json",
             "--state-dir", "state", "--run-dir", "run")  # fmt: skip
    return subprocess.run(
        command("allocate", *flags), cwd=directory, env=ENVIRONMENT,
        capture_output=True, text=True, check=False, timeout=50,
    )  # fmt: skip


def test_allocate_is_refused_while_a_daemon_holds_the_lock(tmp_path: Path) -> None:
    state = StatePaths(tmp_path / "state", tmp_path / "run")
    state.directory.mkdir()
    daemon = PluginLock(state.daemon_lock)
    assert daemon.try_acquire()

    refused = allocate(tmp_path)

    assert (refused.returncode, refused.stdout) == (1, "")
    assert "'dra-shim run' is running on this node" in refused.stderr
    assert not state.allocations.exists()

    daemon.release()
    done = allocate(tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(state.allocations.glob("*.json"))) == 1
    assert daemon.try_acquire(), "the command keeps no lock"
    daemon.release()
