"""CDI ids in the checkpoints of kubelets, across reboots and losses.

A container is created with each id of its checkpoint, so each must be one that the gate writes.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from dra_shim.prepare import PrepareSettings
from dra_shim.settings.common import StatePaths
from dranet_nri.cdi.names import cdi_ids
from dranet_nri.model import ObjectRef, Phase
from tests.dra_shim.prepare.prepare_bench import POD, Bench, attach
from tests.fakes.cluster import POOL, result

pytestmark = pytest.mark.process

# What happens to a node whose pod has a claim; "prepare" is each call of its kubelet.
HISTORIES = {
    "reboot": ["reboot"],
    "two reboots": ["reboot", "prepare", "reboot"],
    "two reboots without a call between them": ["reboot", "reboot"],
    "reboot that loses the records": ["lose records", "reboot"],
    "records lost between two calls": ["prepare", "lose records", "prepare"],
    "records lost after a reboot": ["reboot", "prepare", "lose records", "restart"],
    "kubelet without its checkpoint": ["forget", "reboot"],
    "kubelet and shim without files": ["forget", "lose records", "reboot"],
    "NIC still attached at the reboot": ["attach", "reboot"],
    "attach that failed before the reboot": ["fail", "reboot"],
    "restart of the shim, then a reboot": ["restart", "prepare", "reboot"],
    "unprepare before the call after a reboot": ["reboot", "unprepare"],
    "claim that the next pod has after a reboot": ["reboot", "unprepare", "hand on"],
    "corrupt records that are removed": ["corrupt", "prepare", "lose records", "reboot"],
}


class Node:
    """A node whose kubelet replaces or appends the ids of an answer in its checkpoint.

    Attributes:
        checkpoint: ids of the claim, in order.
        errors: of the calls, in order.
    """

    def __init__(self, root: Path, *, appends: bool) -> None:
        self.state = StatePaths(root / "state", root / "run")
        self.appends = appends
        self.checkpoint: list[str] = []
        self.errors: list[str] = []
        self.boot, self.pod, self.pod_uid = 1, "train", "p1"
        self.bench = self._started()

    def _started(self) -> Bench:
        bench = Bench(self.state, PrepareSettings(POOL, f"boot{self.boot}"))
        self.claim = bench.cluster.add("nics", "u1", "a", "b", pod=self.pod, pod_uid=self.pod_uid)
        devices = bench.cluster.claims["nics"]["status"]["allocation"]["devices"]
        devices["results"] = [result("a", "rail-0"), result("b", "rail-1")]
        return bench

    def restart(self) -> None:
        self.bench.close()
        self.bench = self._started()

    def reboot(self) -> None:
        self.boot += 1
        self.restart()

    def prepare(self) -> None:
        (answer,) = self.bench.prepare(self.claim)
        self.errors.append(answer.error)
        ids = [cdi_id for device in answer.devices for cdi_id in device.cdi_ids]
        self.checkpoint = [*self.checkpoint, *ids] if self.appends else ids or self.checkpoint

    def unprepare(self) -> None:
        assert asyncio.run(self.bench.preparer.unprepare([self.claim])) == {"u1": ""}
        self.checkpoint = []

    def hand_on(self) -> None:
        self.pod, self.pod_uid = "next", "p2"
        self.restart()

    def forget(self) -> None:
        self.checkpoint = []

    def lose_records(self) -> None:
        for record in self.state.allocations.glob("*.json"):
            record.unlink()

    def corrupt(self) -> None:
        for record in self.state.allocations.glob("*.json"):
            record.write_bytes(record.read_bytes()[:-9])

    def attach(self) -> None:
        attach(self.state, self.claim, POD, "a", Phase.ATTACHED)

    def fail(self) -> None:
        attach(self.state, self.claim, POD, "a", Phase.FAILED)

    def written_by_the_gate(self) -> set[str]:
        record = self.bench.record(self.claim)
        assert record is not None
        assert (record.boot_id, record.pod.uid) == (f"boot{self.boot}", self.pod_uid)
        return {cdi_id for _, cdi_id in cdi_ids(record)}


@pytest.fixture(params=["replaces", "appends"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path, appends=request.param == "appends")
    yield made
    made.bench.close()


@pytest.mark.parametrize("history", HISTORIES)
def test_gate_writes_each_id_of_the_kubelet(node: Node, history: str) -> None:
    node.prepare()

    for event in HISTORIES[history]:
        getattr(node, event.replace(" ", "_"))()
    node.prepare()

    assert node.errors[-1] == ""
    assert len(set(node.checkpoint)) == 2
    assert set(node.checkpoint) == node.written_by_the_gate()


def test_namesake_of_an_unprepared_claim_has_other_ids(node: Node) -> None:
    node.prepare()
    before = set(node.checkpoint)
    node.unprepare()
    node.reboot()
    node.bench.cluster.claims["nics"]["metadata"]["uid"] = "u2"
    node.claim = ObjectRef("ai", "nics", "u2")

    node.prepare()

    assert node.errors[-1] == ""
    assert before.isdisjoint(node.checkpoint)
