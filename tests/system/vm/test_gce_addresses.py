"""Addresses of GCE's alias ranges for IPVLAN children of one NIC, on the real kernel.

The records of the shim are real. API server and metadata server are in memory.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from dra_shim.checkpoint.profiles import ProfileStore
from dra_shim.cloud.gce import GCE
from dra_shim.cloud.provider import ProviderDeviceId
from dra_shim.prepare import Providers
from dra_shim.settings.common import StatePaths
from dranet_nri.kernel.session import NetlinkSession
from dranet_nri.model import Attachment, Device, NetworkConfig, ObjectRef, Phase, table_of
from dranet_nri.plan.ops import Op
from tests.dra_shim.cloud.test_clouds import facts
from tests.dra_shim.prepare.prepare_bench import Bench
from tests.dranet_nri.attach.execution.journal import Crash
from tests.fakes.cluster import config, result
from tests.system.kernel.rails import Rails, rails
from tests.system.vm.test_children import state

ALIASES = "10.5.0.16/30"
FIRST, SECOND = "10.5.0.17/30", "10.5.0.18/30"  # those of hosts
CLAIMED = config({"interface": {"name": "net1", "type": "IPVLAN"}})
METADATA = "/computeMetadata/v1/instance"


class Gce:
    """CloudParameters of a machine whose second NIC has the alias range."""

    def __init__(self, mac: str) -> None:
        network = {"network": "projects/1/networks/rdma-0", "gateway": "10.5.0.1"}
        second = {"mac": mac, "ipAliases": [ALIASES]}
        answers = {
            f"{METADATA}/machine-type": "a3-ultragpu-8g",
            f"{METADATA}/network-interfaces/": [network, network | second],
        }
        self._facts = facts(GCE, answers, ProviderDeviceId("nic0", mac=mac))

    def parameters(self, _device: Device, own: NetworkConfig) -> tuple[str, Mapping[str, object]]:
        return "GCE", self._facts.parameters_for(own)


class Node:
    """A node with nic0, whose shim and plugin can restart."""

    def __init__(self, host: Rails, root: Path) -> None:
        (link,) = json.loads("".join(host.shown("-json link show nic0")))
        self.mac = link["address"]
        self.host = host
        self._state = StatePaths(root / "state", root / "run")
        self.shim = self._started()

    def _started(self) -> Bench:
        store = ProfileStore(self._state.profiles)
        return Bench(self._state, providers=Providers(store, Gce(self.mac)))

    def restart(self) -> None:
        """Replace both daemons, as after the end of their processes."""
        self.close()
        self.shim = self._started()
        self.host.restart()

    def claim(self, number: int) -> ObjectRef:
        """Return the claim of a pod: a child of nic0."""
        name = f"claim{number}"
        ref = self.shim.cluster.add(name, name, "nic0", pod=f"pod{number}", pod_uid=f"uid{number}")
        devices = self.shim.cluster.claims[name]["status"]["allocation"]["devices"]
        devices |= {"results": [result("nic0", shareID=f"share{number}")], "config": [CLAIMED]}
        return ref

    def prepared(self, number: int) -> NetworkConfig:
        """Prepare the claim of a pod, and return the recorded configuration."""
        claim = self.claim(number)
        (answer,) = self.shim.prepare(claim)
        record = self.shim.record(claim)
        assert not answer.error
        assert record is not None
        return record.devices[0].config

    def start(self, number: int, before: Attachment | None = None) -> Attachment:
        """Start a pod with its child."""
        return self.host.attach("nic0", pod=number, config=self.prepared(number), before=before)

    def stop(self, number: int, record: Attachment) -> None:
        """End a pod and its claim."""
        assert self.host.detach(record).phase is Phase.RESTORED
        claim = self.claim(number)
        assert asyncio.run(self.shim.preparer.unprepare([claim])) == {claim.uid: ""}

    def addresses(self, number: int) -> list[str]:
        """Return the IPv4 addresses of net1 in a pod."""
        shown = self.host.shown("-4 -oneline addr show", pod=number)
        return [line.split()[3] for line in shown if line.split()[1] == "net1"]

    def close(self) -> None:
        """End the shim."""
        self.shim.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    subprocess.run(("modprobe", "ipvlan"), check=True)
    with rails(1, pods=3) as host:
        node = Node(host, tmp_path)
        yield node
        node.close()


def test_pods_on_one_nic_have_different_addresses_which_later_pods_get(node: Node) -> None:
    before = state(node.host)

    first, second = node.start(0), node.start(1)

    assert [node.addresses(number) for number in (0, 1)] == [[FIRST], [SECOND]]
    table = table_of(node.mac)
    assert f"32000: from {ALIASES} lookup {table} proto static" in node.host.shown("rule", pod=0)
    assert [line.split(" dev ")[0] for line in node.host.shown(f"route show table {table}", 0)] == [
        "default via 10.5.0.1",
        "10.5.0.1",
        ALIASES,
    ]
    node.host.ping("10.5.0.18", "10.5.0.17", pod=0)
    (waiting,) = node.shim.prepare_until_timeout(node.claim(2))
    assert "pods of this node use every address of 10.5.0.17-10.5.0.18/30" in waiting.error
    node.stop(0, first)
    third = node.start(2)
    assert node.addresses(2) == [FIRST]
    node.stop(1, second)
    node.stop(2, third)
    assert state(node.host) == before


def test_address_is_that_of_the_pod_after_a_crash_at_any_step_and_free_after_it(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, real = state(node.host), NetlinkSession.apply
    for step in count(1):
        done: list[str] = []

        def crash_after(session: NetlinkSession, op: Op, done: list[str] = done) -> None:
            real(session, op)
            done.append(str(op))
            if len(done) == step:  # noqa: B023 - called in this round only
                raise Crash

        monkeypatch.setattr(NetlinkSession, "apply", crash_after)
        with suppress(Crash):
            node.start(0)
        monkeypatch.setattr(NetlinkSession, "apply", real)
        (intent,) = node.host.journal.records.values()
        node.restart()

        record = node.start(0, before=intent)

        assert node.addresses(0) == [FIRST], done
        node.stop(0, record)
        assert node.addresses(0) == []
        assert state(node.host) == before, done
        node.host.journal.records.clear()
        if len(done) < step:
            return
