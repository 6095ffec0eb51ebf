"""Order and number of the writes that bring a pool up to date."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dra_shim.pool import DriverResources
from dra_shim.resourceapi import CounterValue
from dra_shim.resourceslice.diff import AcceptedSlice
from dra_shim.resourceslice.documents import new_document, spec_of
from dra_shim.resourceslice.layout import SliceContent, laid_out, slice_name
from dra_shim.scheduling.allocator import pools_of
from tests.dra_shim.resourceslice.pools import (
    NODE,
    POOL,
    Server,
    many,
    parsed,
    resources,
    slice_devices,
)

FIRST, SECOND = slice_name(NODE, 0), slice_name(NODE, 1)
BIG = many(200)


def bring(server: Server, target: DriverResources, limit: int | None = None) -> list[str]:
    """Bring the server to what is wanted, or only part of the way; return what was written."""
    server.writes.clear()
    published = {
        resource_slice.name: resource_slice.devices for resource_slice in server.published()
    }
    parts = laid_out(NODE, target, server.layout or published)
    server.bring(parts, limit)
    if limit is None:
        server.layout = {part.name: [device.name for device in part.devices] for part in parts}
    return server.writes


def consumed(server: Server) -> DriverResources:
    """Return what a scheduler sees of the pool."""
    slices = [parsed(document) for document in server.slices.values()]
    (pool,) = pools_of(slices, NODE)
    assert pool.problem == ""
    return DriverResources(
        tuple(sorted(pool.devices, key=lambda device: device.name)), pool.counters
    )


@pytest.fixture
def server() -> Server:
    """Return one without slices."""
    return Server()


def test_first_publication_has_generation_1(server: Server) -> None:
    assert bring(server, resources("a", "b")) == [f"create {FIRST}"]
    assert server.generations() == [1]
    assert consumed(server) == resources("a", "b")


def test_unchanged_slice_is_not_written(server: Server) -> None:
    counted = DriverResources(
        slice_devices(*BIG, drawn=BIG, taints=BIG[:1]),
        (CounterValue("pf", "functions", Fraction(1)),),
    )
    bring(server, counted)

    assert bring(server, counted) == []


def test_change_of_one_slice_keeps_the_generation(server: Server) -> None:
    bring(server, resources(*BIG))

    written = bring(server, resources(*BIG[:150], "x", *BIG[151:]))

    assert written == [f"change {SECOND}"]
    assert server.generations() == [1, 1]


def test_change_of_two_slices_is_a_new_generation(server: Server) -> None:
    bring(server, resources(*many(300)))

    written = bring(server, resources("a", *many(300)[1:200], "z", *many(300)[201:]))

    assert written == [f"change {slice_name(NODE, index)}" for index in range(3)]
    assert server.generations() == [2, 2, 2]


def test_changed_number_of_slices_is_a_new_generation(server: Server) -> None:
    bring(server, resources(*BIG[:128]))

    assert bring(server, resources(*BIG)) == [f"change {FIRST}", f"create {SECOND}"]
    assert server.generations() == [2, 2]
    assert bring(server, resources(*BIG[:60])) == [f"change {FIRST}", f"remove {SECOND}"]
    assert server.generations() == [3]


def test_deleted_slice_is_created_without_other_writes(server: Server) -> None:
    bring(server, resources(*BIG))
    before = dict(server.slices)
    del server.slices[SECOND]

    assert bring(server, resources(*BIG)) == [f"create {SECOND}"]
    assert server.slices[SECOND]["spec"] == before[SECOND]["spec"]


def test_pool_restarts_after_all_slices_were_deleted(server: Server) -> None:
    bring(server, resources(*BIG))
    server.slices.clear()

    assert bring(server, resources(*BIG)) == [f"create {FIRST}", f"create {SECOND}"]
    assert server.generations() == [1, 1]


@pytest.mark.parametrize(
    "edit",
    [
        {"devices": []},
        {"pool": {"name": NODE, "generation": 1, "resourceSliceCount": 5}},
        {"allNodes": True},
    ],
    ids=["its devices", "the count", "a field that we do not know"],
)
def test_edited_slice_is_restored(server: Server, edit: dict[str, object]) -> None:
    bring(server, resources(*BIG))
    right = server.slices[FIRST]["spec"]
    server.put(FIRST, {**server.slices[FIRST], "spec": {**right, **edit}})

    assert bring(server, resources(*BIG)) == [f"change {FIRST}"]
    assert server.slices[FIRST]["spec"] == right


def test_raised_generation_is_exceeded(server: Server) -> None:
    bring(server, resources(*BIG))
    spec = server.slices[FIRST]["spec"]
    pool = {"name": NODE, "generation": 7, "resourceSliceCount": 2}
    server.put(FIRST, {**server.slices[FIRST], "spec": {**spec, "pool": pool}})

    assert bring(server, resources(*BIG)) == [f"change {SECOND}"]
    assert server.generations() == [7, 7]


def test_slice_of_an_older_driver_is_replaced(server: Server) -> None:
    part = SliceContent("0-dra.net-node-1-abcde", slice_devices("a"))
    server.put(part.name, new_document(POOL, part, spec_of(POOL, part, 4, 1)))

    assert bring(server, resources("a", "b")) == [f"create {FIRST}", f"remove {part.name}"]
    assert server.generations() == [5]


def test_extra_slice_is_deleted(server: Server) -> None:
    bring(server, resources("a"))
    for name, generation in (("stray", 1), ("old", 0)):
        part = SliceContent(name, slice_devices("z"))
        server.put(name, new_document(POOL, part, spec_of(POOL, part, generation, 1)))

    assert bring(server, resources("a")) == ["remove stray", "remove old"]
    assert server.generations() == [1]


def test_slice_of_another_pool_does_not_affect_the_generation(server: Server) -> None:
    part = SliceContent("stray", slice_devices("z"))
    pool = replace(POOL, node="pool-9")
    server.put("stray", new_document(pool, part, spec_of(pool, part, 99, 1)))

    assert bring(server, resources("a")) == [f"create {FIRST}", "remove stray"]
    assert server.generations() == [1]

    server.put("stray", new_document(pool, part, spec_of(pool, part, 1, 1)))
    assert bring(server, resources("b")) == [f"change {FIRST}", "remove stray"]
    assert server.generations() == [1]


def test_slice_of_another_pool_with_the_same_name_is_replaced(server: Server) -> None:
    part = SliceContent(FIRST, slice_devices("z"))
    pool = replace(POOL, node="pool-9")
    server.put(FIRST, new_document(pool, part, spec_of(pool, part, 1, 1)))

    assert bring(server, resources("a")) == [f"remove {FIRST}", f"create {FIRST}"]


@pytest.mark.parametrize(
    "owners",
    [
        [],
        [{"kind": "Node", "uid": "before"}],
        [{"kind": "Node", "uid": "before"}, {"kind": "Node", "uid": POOL.node_uid}],
    ],
    ids=["of nobody", "of an earlier node", "of an earlier node as well"],
)
def test_missing_owner_reference_is_added(server: Server, owners: list[dict[str, str]]) -> None:
    bring(server, resources("a"))
    document = server.slices[FIRST]
    metadata = {**document["metadata"], "ownerReferences": owners}
    server.put(FIRST, {**document, "metadata": metadata})

    assert bring(server, resources("a")) == [f"change {FIRST}"]
    assert bring(server, resources("a")) == []


def test_fields_changed_by_the_server_on_write_are_accepted(server: Server) -> None:
    tainted = resources("a", taints=["a"])
    bring(server, tainted)
    sent = server.published()[0].spec
    document = server.slices[FIRST]
    server.put(
        FIRST, {**document, "spec": {**document["spec"], "devices": [{"name": "a", "of": 1}]}}
    )
    stored = server.published()[0].spec
    server.accepted[FIRST] = AcceptedSlice(sent, stored)

    assert bring(server, tainted) == []
    assert bring(server, resources("a")) == [f"change {FIRST}"]


def test_fields_changed_by_others_are_restored(server: Server) -> None:
    tainted = resources("a", taints=["a"])
    bring(server, tainted)
    server.accepted[FIRST] = AcceptedSlice(server.published()[0].spec, {"something": "else"})
    document = server.slices[FIRST]
    server.put(FIRST, {**document, "spec": {**document["spec"], "devices": []}})

    assert bring(server, tainted) == [f"change {FIRST}"]


NAMES = st.sets(st.integers(0, 260), max_size=220)
STATES = st.tuples(NAMES, NAMES, st.integers(0, 6), st.sampled_from(["", "delete", "edit"]))


def wanted_of(present: set[int], tainted: set[int]) -> DriverResources:
    names = [f"nic-{index:03d}" for index in sorted(present)]
    drawn = names[::50]
    counters = (CounterValue("pf", "functions", Fraction(99)),) if drawn else ()
    unhealthy = {f"nic-{index:03d}" for index in tainted}
    return DriverResources(slice_devices(*names, taints=unhealthy, drawn=drawn), counters)


@given(st.lists(STATES, min_size=1, max_size=5))
def test_pool_converges_after_any_interruption(
    history: Sequence[tuple[set[int], set[int], int, str]],
) -> None:
    server = Server()
    for present, tainted, limit, harm in history:
        target = wanted_of(present, tainted)
        bring(server, target, limit)
        if harm and server.slices:
            name = sorted(server.slices)[0]
            if harm == "delete":
                del server.slices[name]
            else:
                spec = server.slices[name]["spec"]
                server.put(name, {**server.slices[name], "spec": {**spec, "devices": []}})
        bring(server, target)

        assert consumed(server) == target
        assert len(set(server.generations())) == 1
        assert bring(server, target) == []
