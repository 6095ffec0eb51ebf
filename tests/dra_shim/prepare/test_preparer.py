"""Prepare and Unprepare on real records: what is recorded and answered, what is refused."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dra_shim.checkpoint.transaction import FREED_S, CheckpointTransaction
from dra_shim.prepare import (
    ClaimPrepared,
    ClaimUnprepared,
    PreparedDevice,
    PrepareFailed,
    PrepareResult,
    UnprepareFailed,
)
from dra_shim.settings.common import StatePaths
from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    ContainerClaim,
    ObjectRef,
)
from tests.dra_shim.prepare.prepare_bench import (
    POD,
    Bench,
    give_to_another,
)
from tests.dranet_nri.state.directories import removed_and_open
from tests.fakes.cluster import (
    POOL,
    Document,
    config,
    nic,
    pod_document,
    result,
)

pytestmark = pytest.mark.process


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with closing(Bench(StatePaths(tmp_path / "state", tmp_path / "run"))) as made:
        yield made


# --------------------------------------------------------------------------- the record


def test_prepare_records_the_claim_and_returns_its_devices(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a", "b")

    (answer,) = bench.prepare(claim)

    record = bench.record(claim)
    assert record is not None
    assert (record.pod, record.boot_id) == (POD, "boot1")
    assert record.containers == (ContainerClaim("main"),)
    assert [device.device for device in record.devices] == [nic("a"), nic("b")]
    assert answer == PrepareResult(
        (
            PreparedDevice("nic", POOL, "a", (f"dra.net/nic=ai_nics_nic_{record.nonce}",)),
            PreparedDevice("nic", POOL, "b"),
        )
    )
    assert bench.notices == [ClaimPrepared(claim, POD, gated=True)]


def test_entry_of_a_new_record_is_freed_after_the_devices_may_have_moved(bench: Bench) -> None:
    async def run() -> tuple[int, int]:
        await bench.preparer.prepare([bench.cluster.add("one", "one", "nic-1")])
        soon = removed_and_open(bench.state.allocations)
        await asyncio.sleep(1.5 * FREED_S)
        return soon, removed_and_open(bench.state.allocations)

    assert asyncio.run(run()) == (1, 0)


def test_lookup_after_opening_uses_no_transaction(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.prepare(bench.cluster.add("first", "u1", "a"))
    claim = bench.cluster.add("nics", "u2", "b")
    enter, begun = CheckpointTransaction.__enter__, []

    def counted(transaction: CheckpointTransaction) -> CheckpointTransaction:
        begun.append(transaction)
        return enter(transaction)

    monkeypatch.setattr(CheckpointTransaction, "__enter__", counted)
    first = bench.prepare(claim)
    again = bench.prepare(claim)

    assert first == again
    assert len(begun) == 2
    assert bench.record(claim) is not None


def test_repeated_prepare_reads_the_server_and_returns_the_same(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    first = bench.prepare(claim)
    before = bench.record(claim)
    bench.cluster.nics.clear()  # its interface is in the pod, say, and the host was never asked

    assert bench.prepare(claim) == first
    assert bench.record(claim) == before
    assert bench.cluster.reads == ["nics", "nics"]


def test_other_process_returns_the_same(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    first = bench.prepare(claim)
    with closing(Bench(bench.state)) as second:
        second.cluster.add("nics", "u1", "a")

        assert second.prepare(claim) == first


def test_lost_record_is_recreated(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.prepare(claim)
    (bench.state.allocations / "u1.json").unlink()

    bench.prepare(claim)

    assert bench.record(claim) is not None


def test_reallocated_claim_is_recorded_again(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.prepare(claim)
    bench.cluster.add("nics", "u1", "b")

    bench.prepare(claim)

    record = bench.record(claim)
    assert record is not None
    assert [device.device.name for device in record.devices] == ["b"]


def test_call_without_claims_is_answered_at_once(bench: Bench) -> None:
    assert bench.prepare() == []


def test_claim_of_another_driver_is_ignored(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1")
    bench.cluster.claims["nics"]["status"]["allocation"]["devices"]["results"] = [
        result("gpu0", driver="gpu.example.com")
    ]

    assert bench.prepare(claim) == [PrepareResult()]
    assert bench.record(claim) is None


def test_claim_without_a_gate_is_reported(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.cluster.pods["train"] = pod_document("train", "p1", {"n": "nics"}, {"main": []})

    bench.prepare(claim)

    assert bench.notices == [ClaimPrepared(claim, POD, gated=False)]


@pytest.mark.parametrize(
    ("listed", "gated"),
    [
        ([{"name": "both", "request": "gpu"}], False),
        ([{"name": "both", "request": "nic"}], True),
        ([{"name": "both", "request": "gpu"}, {"name": "both", "request": "nic"}], True),
        ([{"name": "both"}], True),
    ],
    ids=["the GPU alone", "the NIC alone", "each", "the whole claim"],
)
def test_request_without_a_container_gates_none(
    bench: Bench, listed: list[Document], gated: bool  # noqa: FBT001 cases
) -> None:  # fmt: skip
    claim = bench.cluster.add("both", "u1", "a")
    bench.cluster.pods["train"] = pod_document("train", "p1", {"both": "both"}, {"main": listed})

    bench.prepare(claim)

    assert bench.notices == [ClaimPrepared(claim, POD, gated=gated)]


def test_each_request_needs_a_container(bench: Bench) -> None:
    claim = bench.cluster.add("both", "u1", "a", "b")
    devices = bench.cluster.claims["both"]["status"]["allocation"]["devices"]
    devices["results"][1]["request"] = "second"
    listings = {"main": [{"name": "n", "request": "nic"}], "side": []}
    bench.cluster.pods["train"] = pod_document("train", "p1", {"n": "both"}, listings)

    bench.prepare(claim)
    listings["side"] = [{"name": "n", "request": "second"}]
    bench.cluster.pods["train"] = pod_document("train", "p1", {"n": "both"}, listings)
    asyncio.run(bench.preparer.unprepare([claim]))
    bench.prepare(claim)

    assert bench.notices == [
        ClaimPrepared(claim, POD, gated=False),
        ClaimUnprepared(claim),
        ClaimPrepared(claim, POD, gated=True),
    ]


RANGE = config({"interface": {"addresses": ["10.0.0.1-10.0.0.2/24"]}})


def test_addresses_of_a_range_are_assigned_and_kept(bench: Bench) -> None:
    claims = [bench.cluster.add(name, uid, device) for name, uid, device in
              [("one", "u1", "a"), ("two", "u2", "b"), ("three", "u3", "c")]]  # fmt: skip
    for name in ("one", "two", "three"):
        bench.cluster.claims[name]["status"]["allocation"]["devices"]["config"] = [RANGE]
    bench.prepare(claims[0])
    bench.prepare(claims[1])
    bench.prepare(claims[0])

    found = [bench.record(claim) for claim in claims[:2]]

    assert [answer and answer.devices[0].config.interface.addresses for answer in found] == [
        ("10.0.0.1/24",),
        ("10.0.0.2/24",),
    ]
    (refused,) = bench.prepare_until_timeout(claims[2])
    assert "use every address of 10.0.0.1-10.0.0.2/24" in refused.error

    bench.cluster.add("one", "u1", "d")  # allocated anew: its own address is free for it
    bench.cluster.claims["one"]["status"]["allocation"]["devices"]["config"] = [RANGE]
    assert bench.prepare(claims[0])[0].error == ""


NAMED = config({"interface": {"name": "net1"}})


def test_interface_name_is_unique_in_a_claim(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a", "b")
    bench.cluster.claims["nics"]["status"]["allocation"]["devices"]["config"] = [
        config({"interface": {"name": "net1", "addresses": ["192.0.2.10/24"]}})
    ]

    error = bench.error(claim)

    assert 'interface.name: "net1": is for device a of claim ai/nics and device b of' in error
    assert 'interface.addresses: "192.0.2.10": is for device a of claim ai/nics and' in error
    assert bench.record(claim) is None


def test_interface_name_is_unique_in_a_pod(bench: Bench) -> None:
    first, second = (
        bench.cluster.add(name, uid, device)
        for name, uid, device in (("one", "u1", "a"), ("two", "u2", "b"))
    )
    for name in ("one", "two"):
        bench.cluster.claims[name]["status"]["allocation"]["devices"]["config"] = [NAMED]

    assert bench.prepare(first)[0].error == ""
    assert (
        'interface.name: "net1": is for device b of claim ai/two and device a of claim ai/one'
        in (bench.error(second))
    )
    assert bench.prepare(first)[0].error == ""


# --------------------------------------------------------------------------- what is wrong


def test_error_of_a_claim_fails_no_other_claim(bench: Bench) -> None:
    good = bench.cluster.add("good", "u1", "a")
    bad = bench.cluster.add("bad", "u2", "b")
    bench.cluster.claims["bad"]["status"]["allocation"]["devices"]["config"] = [
        config({"interface": {"mtu": 1}})
    ]
    gone = ObjectRef("ai", "gone", "u3")

    first, second, third = bench.prepare(good, bad, gone)

    assert (first.error, len(first.devices)) == ("", 1)
    assert second.error.startswith("claim spec.devices.config[0].opaque.parameters.interface.mtu: ")
    assert third.error == "claim ai/gone: does not exist; delete the pod"
    assert [type(notice) for notice in bench.notices].count(PrepareFailed) == 2
    assert bench.record(bad) is None


def test_internal_error_fails_one_claim_and_is_reported(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    fault = RuntimeError("oops")
    bench.cluster.failures = [fault]

    assert bench.error(claim) == "internal error of dra-shim: RuntimeError('oops')"
    assert bench.notices == [
        PrepareFailed(claim, "internal error of dra-shim: RuntimeError('oops')", fault, "internal")
    ]


def test_long_reason_is_one_line_that_fits_an_event(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.cluster.failures = [RefusedError("too\nlong " * 300)]

    error = bench.error(claim)

    assert (len(error), error[:16], error[-3:]) == (900, "too long too lon", "...")
    assert bench.notices == [PrepareFailed(claim, "too\nlong " * 300)]


def test_unusable_record_is_named(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.state.allocations.mkdir(parents=True)
    (bench.state.allocations / "u1.json").write_text('{"version":99}')

    assert "$.version: 99, this program reads up to" in bench.error(claim)


def test_unwritable_state_directory_is_reported(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.state.directory.write_text("")

    error = bench.error(claim)
    assert error.startswith(f"state directory {bench.state.directory}: cannot be written: ")
    assert "Not a directory" in error or "File exists" in error


# --------------------------------------------------------------------------- unprepare


def unprepare(bench: Bench, *claims: ObjectRef) -> list[str]:
    return list(asyncio.run(bench.preparer.unprepare(claims)).values())


def test_unprepare_needs_no_server(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.prepare(claim)
    bench.cluster.reads.clear()

    assert unprepare(bench, claim, claim) == [""]
    assert bench.record(claim) is None
    assert bench.cluster.reads == []
    assert bench.notices[-1] == ClaimUnprepared(claim)


def test_unprepare_of_unknown_claims_succeeds(bench: Bench) -> None:
    unknown = [ObjectRef("ai", "a", "u7"), ObjectRef("ai", "b", "u8")]

    assert unprepare(bench, *unknown) == ["", ""]
    assert unprepare(bench) == []
    assert bench.notices == []


def test_unprepare_quarantines_an_unusable_record(bench: Bench) -> None:
    bench.state.allocations.mkdir(parents=True)
    (bench.state.allocations / "u1.json").write_text('{"version":99}')

    assert unprepare(bench, ObjectRef("ai", "nics", "u1")) == [""]
    assert (bench.state.allocations / "quarantine" / "u1.json.1").exists()


def test_record_that_cannot_be_removed_fails_only_its_claim(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.prepare(claim)
    hung = ObjectRef("ai", "stuck", "u2")
    (bench.state.allocations / "u2.json").write_text('{"version":99}')
    (bench.state.allocations / "quarantine").touch()  # so that it can't be moved there

    first, second = unprepare(bench, hung, claim)

    assert (bool(first), second) == (True, "")
    assert [notice for notice in bench.notices if isinstance(notice, UnprepareFailed)] == [
        UnprepareFailed(hung, first, kind="io")
    ]


def test_drop_keeps_a_newer_record(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.prepare(claim)
    (judged,) = asyncio.run(bench.preparer.record_states())
    unprepare(bench, claim)
    bench.prepare(claim)

    assert not asyncio.run(bench.preparer.drop(judged.record))
    (now,) = asyncio.run(bench.preparer.record_states())
    assert now.record == judged.record
    assert asyncio.run(bench.preparer.drop(now.record))
    assert bench.record(claim) is None


def test_records_of_other_processes_are_read(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.prepare(claim)

    (bench.state.allocations / "u1.json").unlink()
    give_to_another(bench.state, "a")

    (answer,) = bench.prepare_until_timeout(claim)
    assert answer.error == "device a: in use by claim ai/other of pod ai/inference"


def test_records_are_written_to_a_recreated_directory(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.prepare(claim)
    shutil.rmtree(bench.state.directory)

    errors = [bench.prepare(claim)[0].error for _ in range(2)]

    assert errors[-1] == ""
    assert bench.record(claim) is not None
