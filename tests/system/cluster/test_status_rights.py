"""The reporter with the token and the rights that manifests/ give the shim."""

from dataclasses import replace
from pathlib import Path

from dra_shim.kubeapi import CLAIM, ApiClient
from dra_shim.settings.common import StatePaths
from dra_shim.status import EventPosted, Notice, StatusApplied, StatusSyncFailed
from dra_shim.status.summary import ENDED_DELAY_S
from dra_shim.status.workqueue import MIN_INTERVAL_S
from dranet_nri.model import Allocation, ObjectRef
from tests.dra_shim.status.status_bench import Bench, attached, entries, failed, given
from tests.system.cluster.installed import Shim
from tests.system.cluster.test_manifests import allocated, installed, nodes, shim
from tests.system.cluster.workload import Workload

__all__ = ["installed", "nodes", "shim"]  # fixtures


def of_node(claim: ObjectRef, node: str) -> Allocation:
    """Return the record of a claim that was given nic0 of a node."""
    record = given(claim, "nic0", pod=ObjectRef(node, "train", f"pod-of-{claim.uid}"))
    return replace(record, devices=(replace(record.devices[0], pool=node),))


def test_shim_writes_and_removes_device_status(
    shim: Shim, nodes: tuple[Workload, Workload], tmp_path: Path
) -> None:
    claim = allocated(nodes[0])
    record = of_node(claim, nodes[0].name)

    async def work(api: ApiClient) -> list[list[str]]:
        bench = Bench(api, StatePaths(tmp_path / "state", tmp_path / "run"), nodes[0].name)
        async with bench.running():
            bench.allocations.put(record)
            bench.attachments.put(failed(record, "no carrier"))
            await bench.rest()
            await bench.until_notice(StatusApplied)
            await bench.until_notice(EventPosted)
            applied = [list(entries(await api.get(CLAIM, claim.name, claim.namespace)))]
            bench.clock.pass_time(MIN_INTERVAL_S)
            bench.allocations.remove(claim.uid)
            bench.attachments.remove(claim.uid)
            await bench.rest(ENDED_DELAY_S)
            await bench.until_notice(StatusApplied, 2)
            return [*applied, list(entries(await api.get(CLAIM, claim.name, claim.namespace)))]

    assert shim.asks(work) == [["nic0"], []]


def test_missing_right_is_named(
    shim: Shim, nodes: tuple[Workload, Workload], tmp_path: Path
) -> None:
    claim = allocated(nodes[1])
    record = of_node(claim, nodes[1].name)

    async def work(api: ApiClient) -> Notice:
        bench = Bench(api, StatePaths(tmp_path / "state", tmp_path / "run"), nodes[1].name)
        async with bench.running():
            bench.allocations.put(record)
            bench.attachments.put(attached(record))
            await bench.rest()
            return await bench.until_notice(StatusSyncFailed)

    applied = shim.asks(work)

    assert isinstance(applied, StatusSyncFailed)
    assert "grant associated-node:patch on resourceclaims/driver" in str(applied.error)
