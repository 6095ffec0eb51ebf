"""Migration of claims from a previous driver of the same name. It happens once."""

from pathlib import Path
from typing import Any

import pytest

from dra_shim.kubeapi import SLICE
from dra_shim.migration.controller import PAGE, MigrationFinished
from dra_shim.migration.devices import claims_of_node
from dra_shim.resourceslice.layout import slice_name
from dranet_nri.model import DeviceKey, ObjectRef
from tests.dra_shim.migration.takeover_bench import NIC, lists_claims, node, slice_of
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.cluster import POOL, claim_document, result, user

pytestmark = pytest.mark.process


def test_previous_claims_are_prepared_with_published_facts(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            await bench.api.create(SLICE, slice_of("node-1-dra.net-x7k2p"))
            uid = await bench.add_claim("nics", result(NIC.name))

            await bench.run()

            assert bench.prepared == [((ObjectRef("ai", "nics", uid),), {NIC.name: NIC})]
            assert bench.notices == [MigrationFinished(1)]

    finish(scenario())


def test_device_name_is_used_without_slices(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            await bench.add_claim("nics", result(NIC.name))

            await bench.run()

            ((_, devices),) = bench.prepared
            assert devices[NIC.name].key == DeviceKey("pci", "0000:8a:00.0", "", "0000:8a:00.0")

    finish(scenario())


def test_missing_slices_trigger_another_scan(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            await bench.run()
            await bench.add_claim("nics", result(NIC.name))

            await bench.run()

            assert len(bench.prepared) == 1

    finish(scenario())


def test_migration_runs_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            await bench.add_claim("nics", result(NIC.name))
            await bench.run()
            await bench.api.create(SLICE, slice_of(slice_name(POOL, 0)))
            before = len(bench.server.requests)

            await bench.run()

            assert len(bench.prepared) == 1
            assert not any(map(lists_claims, bench.server.requests[before:]))

    finish(scenario())


def test_foreign_slices_trigger_another_scan(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            await bench.run()
            await bench.add_claim("nics", result(NIC.name))
            await bench.api.create(SLICE, slice_of("node-1-dra.net-x7k2p"))

            await bench.run()

            assert len(bench.prepared) == 1

    finish(scenario())


def test_claims_of_a_large_cluster_are_read_by_page(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with node(tmp_path) as bench:
            for number in range(PAGE):
                await bench.add_claim(f"of-another-node-{number}", result("x", pool="node-2"))
            uids = [await bench.add_claim(name, result(name)) for name in ("a-first", "z-last")]

            await bench.run()

            queries = [request.query for request in bench.server.requests if lists_claims(request)]
            assert [query["limit"] for query in queries] == [str(PAGE)] * 2
            ((refs, devices),) = bench.prepared
            assert [ref.uid for ref in refs] == uids
            assert devices.keys() == {"a-first", "z-last"}

    finish(scenario())


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
def test_other_claims_are_not_adopted(document: dict[str, Any]) -> None:
    good = claim_document("good", "u2", [result("b")], [user("p", "p1")])
    (found,) = claims_of_node([document, good], POOL)
    assert found.ref == ObjectRef("ai", "good", "u2")
