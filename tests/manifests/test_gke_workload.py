"""The pods of the GKE walkthrough stay up after their entry script has ended."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.box.waiting import wait_until

pytestmark = pytest.mark.process


WORKLOAD = Path(__file__).parents[2] / "manifests/examples/gke-nccl/workload/nccl-gib-test.yaml"
PARAMETERS = "/etc/openmpi/openmpi-mca-params.conf"
ENTRY = "/scripts/container_entry.sh"
SETTINGS = "/usr/local/gib/scripts/set_nccl_env.sh"


def test_pod_keeps_running_after_its_entry_script(tmp_path: Path) -> None:
    for path, text in (
        (PARAMETERS, "kept = 1\n"),
        (ENTRY, f'#!/bin/sh\necho "$1" >{tmp_path}/entered\n'),
        (SETTINGS, f"touch {tmp_path}/set\n"),
    ):
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755)
    stateful_set = list(yaml.safe_load_all(WORKLOAD.read_text()))[1]
    bash, flag, script = stateful_set["spec"]["template"]["spec"]["containers"][0]["command"]
    for path in (PARAMETERS, ENTRY, SETTINGS):
        assert path in script
        script = script.replace(path, f"{tmp_path}{path}")

    with subprocess.Popen([bash, flag, script], env=os.environ, stderr=subprocess.DEVNULL) as pod:
        try:
            wait_until("the last step", (tmp_path / "set").exists, 30)
            wait_until("the pod to sleep", lambda: name_of(pod.pid) == "sleep", 30)
            assert pod.poll() is None
        finally:
            pod.kill()
    assert (tmp_path / "entered").read_text() == "shell\n"
    parameters = (tmp_path / PARAMETERS.lstrip("/")).read_text()
    assert parameters == "kept = 1\norte_keep_fqdn_hostnames=t\n"


def name_of(pid: int) -> str:
    """Return the name of the program that a process runs."""
    return Path(f"/proc/{pid}/comm").read_text().strip()
