"""A node that another driver of our name had: its claims become ours, once."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dra_shim.adoption import (
    FIRST_PAUSE_S,
    PAGE,
    PATIENCE_S,
    Adopted,
    Adoption,
    KnownBefore,
    NotAdopted,
    Notice,
    claims_of_node,
    devices_of_slices,
    published_device,
)
from dra_shim.api import CLAIM, SLICE, Api
from dra_shim.prepare import Answer
from dra_shim.settings import State
from dra_shim.slices.layout import slice_name
from dra_shim.timing import Timing
from dranet_nri.inventory import NUMA_NODE
from dranet_nri.model import Device, DeviceKey, ObjectRef, Version
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import POOL, claim_document, result, user
from tests.fakes.documents import status
from tests.fakes.exchange import Asked, Told
from tests.process.api_bench import talking
from tests.process.plugin_bench import finish

ATTRIBUTES = {
    "dra.net/ifName": {"string": "ens5"},
    "dra.net/rdmaDevice": {"string": "mlx5_0"},
    "dra.net/mtu": {"int": 1500},
    "dra.net/sriov": {"bool": False},
    "resource.kubernetes.io/kernel": {"version": "6.1.0"},
    "dra.net/ofANewerServer": {"ints": [1]},
}
NIC = Device(
    "pci-0000-8a-00-0",
    DeviceKey("pci", "0000:8a:00.0", "ens5", "0000:8a:00.0"),
    (
        ("dra.net/ifName", "ens5"),
        ("dra.net/mtu", 1500),
        ("dra.net/pciAddress", "0000:8a:00.0"),
        ("dra.net/rdmaDevice", "mlx5_0"),
        ("dra.net/sriov", False),
        ("resource.kubernetes.io/kernel", Version("6.1.0")),
    ),
    ("mlx5_0",),
)


def slice_of(name: str) -> dict[str, Any]:
    """Return a slice as dranet writes it."""
    return {
        "metadata": {"name": name},
        "spec": {
            "driver": "dra.net",
            "nodeName": POOL,
            "pool": {"name": POOL, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": NIC.name, "attributes": ATTRIBUTES}],
        },
    }


@dataclass
class Scene:
    """A server, a node with nothing of ours yet, and what preparing was asked for."""

    server: FakeApiServer
    api: Api
    state: State
    clock: FakeClock = field(default_factory=FakeClock)
    notices: list[Notice] = field(default_factory=list)
    asked: list[tuple[Sequence[ObjectRef], Mapping[str, Device]]] = field(default_factory=list)
    error: str = ""

    async def prepare(
        self, claims: Sequence[ObjectRef], devices: Mapping[str, Device]
    ) -> Mapping[str, Answer]:
        """Answer as a preparer does."""
        self.asked.append((claims, devices))
        return {each.uid: Answer(error=self.error) for each in claims}

    async def add_claim(self, name: str, *results: dict[str, Any], resource: str = "pods") -> str:
        """Add an allocated claim; return its UID."""
        users = [user("train", "p1", resource=resource)]
        document = claim_document(name, "", results, users)
        made = await self.api.create(CLAIM, {**document, "metadata": {"name": name}}, "ai")
        status = document["status"]  # which a server takes from those alone who may allocate
        self.server.alter("resourceclaims", name, lambda each: each.update(status=status), "ai")
        metadata: Any = made["metadata"]
        return str(metadata["uid"])

    def adoption(self) -> Adoption:
        """Return what looks for claims of before."""
        timing = Timing(self.clock, self.clock.sleep, lambda: 1.0)
        return Adoption(self.api, POOL, self.state, self.prepare, self.notices.append, timing)

    async def run(self) -> None:
        """Look for claims of before."""
        await self.adoption().run()


@asynccontextmanager
async def node(home: Path) -> AsyncIterator[Scene]:
    state = State(home / "state", home / "run")
    state.directory.mkdir()
    async with talking() as (server, api):
        yield Scene(server, api, state)


def lists_claims(asked: Asked) -> bool:
    return asked.method == "GET" and asked.path.endswith("/resourceclaims")


def lists_slices(asked: Asked) -> bool:
    return asked.path.endswith("/resourceslices")


def test_claims_of_before_are_prepared_with_what_was_published_of_their_devices(
    tmp_path: Path,
) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            await stage.api.create(SLICE, slice_of("node-1-dra.net-x7k2p"))
            uid = await stage.add_claim("nics", result(NIC.name))

            await stage.run()

            assert stage.asked == [([ObjectRef("ai", "nics", uid)], {NIC.name: NIC})]
            assert stage.notices == [Adopted(1)]

    finish(scene())


def test_without_slices_a_devices_name_has_to_do(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            await stage.add_claim("nics", result(NIC.name))

            await stage.run()

            ((_, devices),) = stage.asked
            assert devices[NIC.name].key == DeviceKey("pci", "0000:8a:00.0", "", "0000:8a:00.0")

    finish(scene())


def test_it_is_done_once(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            await stage.add_claim("nics", result(NIC.name))
            await stage.run()
            await stage.api.create(SLICE, slice_of(slice_name(POOL, 0)))
            before = len(stage.server.asked)

            await stage.run()

            assert len(stage.asked) == 1
            assert not any(map(lists_claims, stage.server.asked[before:]))

    finish(scene())


def test_slices_of_another_hand_are_a_reason_to_look_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            await stage.run()
            await stage.add_claim("nics", result(NIC.name))
            await stage.api.create(SLICE, slice_of("node-1-dra.net-x7k2p"))

            await stage.run()

            assert len(stage.asked) == 1

    finish(scene())


def test_a_claim_that_cannot_be_prepared_is_told(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            await stage.add_claim("nics", result(NIC.name))
            stage.error = "pod ai/train: is gone"

            await stage.run()

            assert stage.notices == [Adopted(0, ("claim ai/nics: pod ai/train: is gone",))]
            assert not stage.state.adopted.exists(), "the next start tries again"

    finish(scene())


def test_a_server_that_cannot_answer_is_asked_again(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            await stage.add_claim("nics", result(NIC.name))
            stage.server.fail(None, lists_claims, times=2)
            looking = asyncio.create_task(stage.run())
            for pause_s in (FIRST_PAUSE_S, 2 * FIRST_PAUSE_S):
                await stage.clock.until_asleep(pause_s)
                trouble = stage.notices[-1]
                assert isinstance(trouble, NotAdopted)
                assert trouble.retry_s == pause_s
                assert not stage.state.adopted.exists()
                stage.clock.pass_time(pause_s)
            await looking

            assert stage.notices[2:] == [Adopted(1)]

    finish(scene())


def test_of_a_large_clusters_claims_a_page_at_a_time_is_looked_at(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            for number in range(PAGE):
                await stage.add_claim(f"of-another-node-{number}", result("x", pool="node-2"))
            mine = [await stage.add_claim(name, result(name)) for name in ("a-first", "z-last")]

            await stage.run()

            queries = [each.query for each in stage.server.asked if lists_claims(each)]
            assert [each["limit"] for each in queries] == [str(PAGE)] * 2
            ((refs, devices),) = stage.asked
            assert [each.uid for each in refs] == mine
            assert devices.keys() == {"a-first", "z-last"}

    finish(scene())


def test_a_list_that_the_server_forgets_half_way_is_begun_anew(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            for number in range(PAGE + 1):
                await stage.add_claim(f"claim-{number}", result(f"nic-{number}"))
            gone = Told(410, status(410, "Expired", "too old to display a consistent list"))
            stage.server.fail(gone, lambda asked: "continue" in asked.query)
            looking = asyncio.create_task(stage.run())
            await stage.clock.until_asleep(FIRST_PAUSE_S)
            stage.clock.pass_time(FIRST_PAUSE_S)
            await looking

            ((refs, _),) = stage.asked
            assert len(refs) == len(set(refs)) == PAGE + 1
            assert stage.notices[1:] == [Adopted(PAGE + 1)]

    finish(scene())


def test_publishing_waits_for_claims_of_before_and_not_for_ever(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            stage.server.fail(None, lists_claims, times=1000)
            adoption = stage.adoption()
            looking = asyncio.create_task(adoption.run())
            publishing = asyncio.create_task(adoption.awaited())
            await stage.clock.until_asleep(FIRST_PAUSE_S)
            await stage.clock.until_asleep(PATIENCE_S)
            stage.clock.pass_time(PATIENCE_S - 1)
            await asyncio.sleep(0)
            assert not publishing.done()

            stage.clock.pass_time(1)
            await publishing

            assert not looking.done(), "it goes on beside publishing"
            looking.cancel()

    finish(scene())


def test_publishing_begins_when_claims_of_before_have_their_records(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            await stage.add_claim("nics", result(NIC.name))
            adoption = stage.adoption()
            publishing = asyncio.create_task(adoption.awaited())

            await asyncio.gather(adoption.run(), publishing)

            assert stage.notices == [Adopted(1)]

    finish(scene())


def test_nothing_is_published_before_it_is_known_what_was_before(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            stage.server.fail(None, lists_slices)
            adoption = stage.adoption()
            publishing = asyncio.create_task(adoption.awaited())
            looking = asyncio.create_task(adoption.run())
            await stage.clock.until_asleep(FIRST_PAUSE_S)
            assert stage.clock.asleep() == [FIRST_PAUSE_S], "no patience has begun"
            assert not publishing.done()

            stage.clock.pass_time(FIRST_PAUSE_S)
            await asyncio.gather(looking, publishing)

    finish(scene())


def test_what_was_published_before_is_known_when_we_have_published(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            await stage.api.create(SLICE, slice_of("node-1-dra.net-x7k2p"))
            await stage.add_claim("nics", result(NIC.name))
            stage.server.fail(None, lists_claims)
            looking = asyncio.create_task(stage.run())
            await stage.clock.until_asleep(FIRST_PAUSE_S)
            stage.server.remove("resourceslices")
            ours = slice_of(slice_name(POOL, 0))
            await stage.api.create(SLICE, {**ours, "spec": {**ours["spec"], "devices": []}})

            stage.clock.pass_time(FIRST_PAUSE_S)
            await looking

            ((_, devices),) = stage.asked
            assert devices == {NIC.name: NIC}

    finish(scene())


def test_that_it_cannot_be_noted_is_told(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            stage.state.directory.rmdir()

            await stage.run()

            _, trouble = stage.notices
            assert isinstance(trouble, NotAdopted)
            assert isinstance(trouble.error, FileNotFoundError)
            assert trouble.retry_s is None

    finish(scene())


def test_without_the_right_to_list_claims_the_node_works_on(tmp_path: Path) -> None:
    async def scene() -> None:
        async with node(tmp_path) as stage:
            stage.server.fail(Told(403, b"", {}), lists_claims)

            await stage.run()

            (trouble,) = stage.notices
            assert isinstance(trouble, NotAdopted)
            assert trouble.retry_s is None
            assert not stage.state.adopted.exists(), "the next start tries again"

    finish(scene())


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(
            claim_document("c", "u1", [result("a", pool="node-2")], [user("p", "p1")]),
            id="of another node",
        ),
        pytest.param(
            claim_document("c", "u1", [result("a", driver="gpu.example.com")], [user("p", "p1")]),
            id="of another driver",
        ),
        pytest.param(claim_document("c", "u1", [result("a")], []), id="nobody uses it"),
        pytest.param(
            claim_document("c", "u1", [result("a")], [user("p", "p1", resource="podgroups")]),
            id="used by no pod",
        ),
        pytest.param({"metadata": {}}, id="not what a server writes"),
    ],
)
def test_claims_that_are_not_adopted(document: dict[str, Any]) -> None:
    good = claim_document("good", "u2", [result("b")], [user("p", "p1")])
    (found,) = claims_of_node([document, good], POOL)
    assert found.ref == ObjectRef("ai", "good", "u2")


def test_devices_are_read_in_every_version_of_a_slice() -> None:
    old = {"spec": {"devices": [{"name": NIC.name, "basic": {"attributes": ATTRIBUTES}}]}}
    new = slice_of("x")
    odd: list[dict[str, Any]] = [{}, {"spec": {"devices": ["?", {"name": "n"}]}}]
    assert devices_of_slices([old]) == devices_of_slices([new]) == {NIC.name: NIC}
    assert devices_of_slices(odd) == {"n": Device("n", DeviceKey("", "", "n"))}


def test_of_a_numa_nodes_list_the_node_itself_is_read() -> None:
    attributes = {NUMA_NODE: {"ints": [6, 4]}, "x": {"ints": []}}
    document = {"spec": {"devices": [{"name": "n", "attributes": attributes}]}}
    (found,) = devices_of_slices([document]).values()

    assert found.attributes == ((NUMA_NODE, 6),)


def test_a_name_alone_tells_where_hardware_is() -> None:
    found = published_device("pci-0000-8a-00-1-p1", {})
    assert found.key == DeviceKey("pci", "0000:8a:00.1", "", "0000:8a:00.1")
    assert published_device("eth0", {"ifName": "eth0"}).key == DeviceKey("", "", "eth0")


def test_what_the_node_sees_counts_more_than_what_was_published() -> None:
    class Node:
        async def devices(self, names: Collection[str]) -> Mapping[str, Device]:
            return {"b": seen} if "b" in names else {}

    seen = Device("b", DeviceKey("", "", "now"))
    before = {name: Device(name, DeviceKey("", "", "then")) for name in ("a", "b")}

    found = asyncio.run(KnownBefore(Node(), before).devices({"a", "b", "c"}))

    assert found == {"a": before["a"], "b": seen}
