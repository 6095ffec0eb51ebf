"""Pods with children of one parent: records of the shim and the kernel agree after any crash.

The shim and the plugin work on the same records; API server and kernel are in memory.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dra_shim.checkpoint.transaction import CheckpointTransaction
from dra_shim.prepare import Preparer, PrepareSettings, Sources
from dra_shim.settings.common import StatePaths
from dranet_nri.component.files import FileSystem
from dranet_nri.model import Address, Allocation, Device, DeviceKey, ObjectRef, Pod
from dranet_nri.state.reader import AllocationReader
from tests.dranet_nri.state.failing import DeadFs
from tests.fakes.cluster import (
    POOL,
    FakeCluster,
    claim_document,
    config,
    pod_document,
    result,
    user,
)
from tests.fakes.no_cloud import no_providers
from tests.fakes.node import BOOT_ID, Node

PARENT = Device(
    "bond0",
    DeviceKey("", "", "bond0"),
    (
        ("dra.net/childrenOnly", True),
        ("dra.net/encapsulation", "ether"),
        ("dra.net/ifName", "bond0"),
        ("dra.net/ipv4", "10.0.0.9/24"),
    ),
)
NUMBERS = range(8)
ADDRESSES = [f"10.0.0.{10 + number}/24" for number in NUMBERS]
SHARE = 50 * 10**9
PARAMETERS = {
    "interface": {"name": "net1", "type": "IPVLAN", "addresses": ["10.0.0.9-10.0.0.17/24"]}
}
CALLS = 2  # calls of a Prepare or Unprepare that change the file system: at most so many


class ParentCluster(FakeCluster):
    """A cluster with a node that publishes the parent, and eight pods with a share of it each."""

    def __init__(self) -> None:
        """Add the claims and pods."""
        super().__init__()
        self.refs = [self._add(number) for number in NUMBERS]

    def _add(self, number: int) -> ObjectRef:
        name, pod = f"claim{number}", f"pod{number}"
        consumed = {"dra.net/bandwidth": "50G"}
        share = result("bond0", shareID=f"share{number}", consumedCapacity=consumed)
        users = [user(pod, f"uid{number}")]
        self.claims[name] = claim_document(name, name, [share], users, [config(PARAMETERS)])
        self.pods[pod] = pod_document(pod, f"uid{number}", {name: name})
        return ObjectRef("ai", name, name)

    async def devices(self, names: Collection[str]) -> Mapping[str, Device]:
        """See DeviceSource."""
        return dict.fromkeys(names, PARENT)


class SharedParent:
    """A node whose bond is the parent, with the processes of both daemons."""

    def __init__(self, root: Path) -> None:
        """Start the plugin."""
        self.state = StatePaths(root, root / "run")
        self.cluster = ParentCluster()
        self.node = Node(root, nics=0)
        self.node.kernel.add_link("bond0", kind="bond", addresses=(Address("10.0.0.9/24"),))
        self.before = self.node.kernel.state("bond0")

    def prepare(self, number: int, fs: FileSystem) -> str:
        """Let a new process prepare a claim; return the error, "" for success."""
        with self._preparer(fs) as preparer:
            (answer,) = asyncio.run(preparer.prepare([self.cluster.refs[number]])).values()
        return answer.error

    def unprepare(self, number: int, fs: FileSystem) -> str:
        """Let a new process unprepare a claim; return the error, "" for success."""
        with self._preparer(fs) as preparer:
            (error,) = asyncio.run(preparer.unprepare([self.cluster.refs[number]])).values()
        return error

    @contextmanager
    def _preparer(self, fs: FileSystem) -> Iterator[Preparer]:
        sources = Sources(self.cluster, self.cluster, self.cluster)
        terms = PrepareSettings(POOL, BOOT_ID)
        providers = no_providers(self.state)
        preparer = Preparer(sources, self.state, terms, lambda _: None, providers=providers, fs=fs)
        try:
            yield preparer
        finally:
            preparer.close()

    def pod(self, number: int) -> Pod:
        """Return the sandbox of a pod."""
        path = self.node.pod(f"pod{number}").netns_path
        return Pod(f"sandbox{number}", f"uid{number}", "ai", f"pod{number}", path)

    def close(self) -> None:
        """End the plugin."""
        self.node.close()

    def addresses(self) -> list[str]:
        """Return the recorded addresses of all pods."""
        return [cidr for record in self.records().values() for cidr in addresses_of(record)]

    def records(self) -> dict[str, Allocation]:
        """Return the records by claim UID; none is corrupt."""
        with AllocationReader(self.state.allocations, owner=None) as reader:
            assert not reader.broken
            return {record.claim.uid: record for record in reader.records()}

    def assert_books_equal_the_kernel(self, running: Collection[int]) -> None:
        """Check records, children, addresses and rates against each other."""
        records = self.records()
        assert {*records} == {f"claim{number}" for number in running}
        with CheckpointTransaction(self.state) as transaction:
            consumed = transaction.in_use().consumed.get("bond0", {})
        assert consumed.get("dra.net/bandwidth", 0) == SHARE * len(running)
        children = {}
        for number in NUMBERS:
            netns = self.node.netns(self.pod(number))
            child = self.node.kernel.state("net1", netns)
            if child is not None:
                assert self.node.kernel.space(netns).named("look", "net1").rate == SHARE
                children[number] = [address.cidr for address in child.addresses]
        recorded = {number: addresses_of(records[f"claim{number}"]) for number in running}
        assert children == recorded
        assert self.node.kernel.state("bond0") == self.before


def addresses_of(record: Allocation) -> list[str]:
    """Return the addresses that the shim gave the claim's only device."""
    (device,) = record.devices
    return [*(device.config.interface.addresses or ())]


@pytest.mark.parametrize("first", range(CALLS + 1))
def test_books_equal_the_kernel_after_a_crash_at_any_step(tmp_path: Path, first: int) -> None:
    steps = [1 + (first + number) % (CALLS + 1) for number in NUMBERS]
    crashes = set()
    with closing(SharedParent(tmp_path)) as shared:
        for number, step in enumerate(steps):
            dying = DeadFs(step)
            assert bool(shared.prepare(number, dying)) is dying.broke
            crashes |= {step} if dying.broke else set()
            assert shared.prepare(number, FileSystem()) == ""
            shared.node.run_pod(shared.pod(number))
            shared.assert_books_equal_the_kernel(NUMBERS[: number + 1])
        assert sorted(shared.addresses()) == ADDRESSES
        shared.node.restart()
        shared.node.synchronize(*map(shared.pod, NUMBERS))
        for number, step in enumerate(steps):
            shared.node.stop_pod(shared.pod(number))
            dying = DeadFs(step)
            assert bool(shared.unprepare(number, dying)) is dying.broke
            assert shared.unprepare(number, FileSystem()) == ""
            shared.assert_books_equal_the_kernel(NUMBERS[number + 1 :])
    assert crashes == {*range(1, CALLS + 1)}


def test_child_does_not_get_the_address_of_its_parent(tmp_path: Path) -> None:
    with closing(SharedParent(tmp_path)) as shared:
        assert shared.prepare(0, FileSystem()) == ""

        assert shared.addresses() == ADDRESSES[:1]


def test_address_of_a_child_is_free_after_the_restore(tmp_path: Path) -> None:
    with closing(SharedParent(tmp_path)) as shared:
        for number, address in enumerate(ADDRESSES[:2]):
            assert shared.prepare(number, FileSystem()) == ""
            shared.node.run_pod(shared.pod(number))
            assert shared.addresses() == [address]
            assert shared.unprepare(number, FileSystem()) == ""
        shared.node.stop_pod(shared.pod(0))

        assert shared.prepare(2, FileSystem()) == ""
        assert shared.addresses() == ADDRESSES[:1]
