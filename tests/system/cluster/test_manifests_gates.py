"""The admission policy for status writes, on servers before 1.36 without that check."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dra_shim.kubeapi import CLAIM, RejectedError
from tests.box.waiting import wait_until
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.installed import Installed
from tests.system.cluster.test_manifests import (
    allocated,
    allocation,
    is_enforced,
    new_claim,
    report,
)
from tests.system.cluster.workload import Workload

GPU = "gpu.example.com"
GATE = "DRAResourceClaimGranularStatusAuthorization"


@pytest.fixture(scope="module")
def old(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Return a control plane that asks no more than RBAC of who writes a claim's status."""
    with ControlPlane(programs, tmp_path_factory.mktemp("old"), {GATE: False}) as plane:
        yield plane


def test_only_the_node_of_a_claim_can_write_status_and_none_can_allocate(
    old: ControlPlane, tmp_path: Path
) -> None:
    here, there = Workload(old), Workload(old)
    for entry in (here, there):
        entry.create()
    installed = Installed(old, tmp_path)
    installed.apply()
    shim = installed.shim(here.name)
    wait_until("the policies to be enforced", lambda: is_enforced(installed.shim()))
    given, foreign, fresh = allocated(here, GPU), allocated(there), new_claim(here)
    gpu = {"driver": GPU, "pool": here.name, "device": "nic0"}
    others = {
        "metadata": {"name": given.name, "uid": given.uid},
        "status": {"devices": [gpu]},
    }
    document = {
        "metadata": {"name": fresh.name, "uid": fresh.uid},
        "status": {"allocation": allocation(here.name)},
    }

    assert shim.asks(lambda api: report(api, given, here.name))
    with pytest.raises(RejectedError, match=r"may only write the status of claims with devices"):
        shim.asks(lambda api: report(api, foreign, there.name))
    with pytest.raises(RejectedError, match=r"may only say what became of devices of dra\.net"):
        shim.asks(lambda api: api.apply(CLAIM, others, "dra.net", given.namespace, "status"))
    with pytest.raises(RejectedError, match="may not change what is allocated"):
        shim.asks(lambda api: api.apply(CLAIM, document, "dra.net", fresh.namespace, "status"))
