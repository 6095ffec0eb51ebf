"""The gate beside the executor: shut before a NIC leaves."""

from pathlib import Path

from dranet_nri.executor import Executor
from dranet_nri.fabric import RdmaOptions
from dranet_nri.model import Allocation, Attachment
from tests.fakes.node import Node


class WatchingExecutor(Executor):
    """An executor that looks at the gate when a detach begins."""

    def __init__(self, node: Node, claim: Allocation) -> None:
        super().__init__(node.kernel, node.attachments, node.clock, RdmaOptions())
        self.open: list[bool] = []
        self._node = node
        self._claim = claim

    def detach(self, attachment: Attachment, *, netns_alive: bool) -> Attachment:
        self.open.append(self._node.gate_open(self._claim))
        return super().detach(attachment, netns_alive=netns_alive)


def test_the_gate_is_shut_before_a_nic_leaves_its_pod(tmp_path: Path) -> None:
    node = Node(tmp_path)
    pod = node.pod("web")
    claim = node.allocate(pod, 1)
    node.run_pod(pod)
    watching = WatchingExecutor(node, claim)
    node.plugin.attacher.executor = watching

    node.stop_pod(pod)

    assert watching.open == [False]
    assert node.at_home(1)
    node.close()
