"""Prepare where trouble may pass: who waits for what, and calls beside each other."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dra_shim.checkpoint.transaction import CheckpointTransaction
from dra_shim.prepare import (
    ApiUnavailableError,
    ClaimPrepared,
    PrepareResult,
    PrepareWaits,
)
from dra_shim.prepare.preparer import LONGEST_S
from dra_shim.settings.common import StatePaths
from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    InterfaceConfig,
    ObjectRef,
    Phase,
)
from tests.dra_shim.prepare.prepare_bench import (
    OTHER,
    OTHER_POD,
    POD,
    Bench,
    attach,
    give_to_another,
    nonce_of,
)
from tests.fakes.cluster import (
    config,
    pod_document,
    result,
    user,
)

pytestmark = pytest.mark.process


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with closing(Bench(StatePaths(tmp_path / "state", tmp_path / "run"))) as made:
        yield made


# --------------------------------------------------------------------------- patience


def later(bench: Bench, claim: ObjectRef, *then: object) -> PrepareResult:
    """Prepare; run each step of `then` when the next pause begins, and let the pause pass."""

    async def run() -> PrepareResult:
        task = asyncio.create_task(bench.preparer.prepare([claim]))
        pause_s = 0.2
        for step in then:
            await bench.clock.until_asleep(pause_s)
            if callable(step):
                step()
            bench.clock.pass_time(pause_s)
            pause_s *= 2
        return (await task)[claim.uid]

    return asyncio.run(run())


def test_device_of_another_claim_is_awaited(bench: Bench) -> None:
    give_to_another(bench.state, "a")
    claim = bench.cluster.add("nics", "u1", "a")

    def unprepare_the_other() -> None:
        with CheckpointTransaction(bench.state) as transaction:
            transaction.forget("u9")

    answer = later(bench, claim, None, None, unprepare_the_other)

    assert (answer.error, len(answer.devices)) == ("", 1)
    assert bench.notices == [  # each reason once, however often it was met
        PrepareWaits(claim, "device a: in use by claim ai/other of pod ai/inference"),
        ClaimPrepared(claim, POD, gated=True),
    ]


def test_owner_of_the_device_is_reported_at_the_deadline(bench: Bench) -> None:
    give_to_another(bench.state, "a")
    claim = bench.cluster.add("nics", "u1", "a", "b")

    (answer,) = bench.prepare_until_timeout(claim)

    assert answer == PrepareResult(error="device a: in use by claim ai/other of pod ai/inference")
    assert bench.record(claim) is None


def with_last_address(bench: Bench) -> tuple[ObjectRef, ObjectRef]:
    """Return claims of two pods, of which one has the only address of a range."""
    old = bench.cluster.add("old", "u1", "a", pod="ending", pod_uid="p1")
    new = bench.cluster.add("new", "u2", "b", pod="next", pod_uid="p2")
    span = config({"interface": {"addresses": ["10.0.0.16-10.0.0.16/24"]}})
    for name in ("old", "new"):
        bench.cluster.claims[name]["status"]["allocation"]["devices"]["config"] = [span]
    bench.prepare(old)
    return old, new


def assert_has_last_address(bench: Bench, claim: ObjectRef) -> None:
    record = bench.record(claim)
    assert record is not None
    assert record.devices[0].config.interface.addresses == ("10.0.0.16/24",)


def test_last_address_of_a_range_is_awaited(bench: Bench) -> None:
    _, new = with_last_address(bench)

    def unprepare_the_other() -> None:
        with CheckpointTransaction(bench.state) as transaction:
            transaction.forget("u1")

    assert later(bench, new, None, unprepare_the_other).error == ""

    assert_has_last_address(bench, new)


CHILD = InterfaceConfig(addresses=("10.0.0.16/24",))


@pytest.mark.parametrize(
    ("phase", "facts"),
    [
        (Phase.INTENT, {"child": "dra.net/u1/a", "child_config": CHILD}),
        (Phase.ATTACHED, {"addresses": ("10.0.0.16/24",)}),
        (Phase.DETACHING, {"addresses": ("10.0.0.16/24",)}),
    ],
    ids=["being attached", "attached", "being restored"],
)
def test_address_is_awaited_until_its_device_is_restored(
    bench: Bench, phase: Phase, facts: Any
) -> None:
    old, new = with_last_address(bench)
    ending = ObjectRef("ai", "ending", "p1")
    attach(bench.state, old, ending, "a", phase, **facts)
    assert asyncio.run(bench.preparer.unprepare([old])) == {"u1": ""}

    def restore() -> None:
        attach(bench.state, old, ending, "a", Phase.RESTORED, **facts)

    assert later(bench, new, None, restore).error == ""

    assert "use every address of 10.0.0.16-10.0.0.16/24" in str(bench.notices)
    assert_has_last_address(bench, new)


@pytest.mark.parametrize(
    ("other_share", "share", "free"), [("5a", "6b", True), ("5a", "", False), ("", "6b", False)]
)
def test_shares_coexist_only_with_shares(
    bench: Bench, other_share: str, share: str, free: bool  # noqa: FBT001 a case
) -> None:  # fmt: skip
    bench.cluster.nics.add("hca")
    give_to_another(bench.state, "hca", share=other_share)
    claim = bench.cluster.add("nics", "u1", "hca")
    bench.cluster.claims["nics"]["status"]["allocation"]["devices"]["results"] = [
        result("hca", shareID=share or None)
    ]

    (answer,) = bench.prepare(claim) if free else bench.prepare_until_timeout(claim)

    assert [device.share_id for device in answer.devices] == ([share] if free else [])
    assert answer.error == (
        "" if free else "device hca: in use by claim ai/other of pod ai/inference"
    )


def test_next_pod_of_a_claim_waits_for_the_restore(
    bench: Bench,
) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.prepare(claim)
    attach(bench.state, claim, POD, "a", Phase.DETACHING)
    bench.cluster.add("nics", "u1", "a", pod="next", pod_uid="p2")

    answer = later(bench, claim, None, lambda: attach(bench.state, claim, POD, "a", Phase.RESTORED))

    record = bench.record(claim)
    assert answer.error == ""
    assert record is not None
    assert record.pod == ObjectRef("ai", "next", "p2")


def shared_by(bench: Bench, *pods: str) -> ObjectRef:
    """Return a claim that is reserved for pods, of which each is there."""
    claim = bench.cluster.add("nics", "u1", "a")
    status = bench.cluster.claims["nics"]["status"]
    status["reservedFor"] = [user(pod, f"p-{pod}") for pod in pods]
    for pod in pods:
        bench.cluster.pods[pod] = pod_document(pod, f"p-{pod}", {"n": "nics"})
    return claim


@pytest.mark.parametrize("pods", [("old", "next"), ("next", "old")])
@pytest.mark.parametrize("ends", ["finished", "gone"])
def test_next_pod_waits_for_the_reservation_of_an_ended_pod(
    bench: Bench, ends: str, pods: tuple[str, str]
) -> None:
    claim = shared_by(bench, *pods)
    if ends == "gone":
        del bench.cluster.pods["old"]
    else:
        bench.cluster.pods["old"]["status"]["phase"] = "Succeeded"

    reserved = bench.cluster.claims["nics"]["status"]["reservedFor"]
    answer = later(bench, claim, None, lambda: reserved.remove(user("old", "p-old")))

    waits = "claim ai/nics: is still reserved for old as well, which ended"
    assert bench.notices[0] == PrepareWaits(claim, waits)
    assert answer.error == ""
    record = bench.record(claim)
    assert record is not None
    assert record.pod == ObjectRef("ai", "next", "p-next")


def test_pods_that_share_a_claim_are_refused(bench: Bench) -> None:
    claim = shared_by(bench, "old", "one", "two", "three")
    del bench.cluster.pods["old"]
    del bench.cluster.pods["three"]

    assert "is used by 3 pods (one, two, three), and" in bench.error(claim)


def test_devices_of_the_same_pod_do_not_block_it(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    attach(bench.state, claim, POD, "a", Phase.ATTACHED)

    (answer,) = bench.prepare(claim)

    assert answer.error == ""


def test_device_that_is_not_restored_is_awaited(bench: Bench) -> None:
    attach(bench.state, OTHER, OTHER_POD, "a", Phase.DETACHING)
    claim = bench.cluster.add("nics", "u1", "a")

    (answer,) = bench.prepare_until_timeout(claim, limit_s=45.0)

    assert answer.error == (
        "device a: in use by pod ai/inference, which has not released it (claim ai/other)"
    )


def test_missing_device_is_awaited(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.cluster.nics.clear()

    answer = later(bench, claim, None, lambda: bench.cluster.nics.add("a"))

    assert answer.error == ""


def test_server_errors_are_retried_after_retry_after(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.cluster.failures = [ApiUnavailableError("busy", 7.0), ApiUnavailableError("refused")]

    async def run() -> dict[str, PrepareResult]:
        task = asyncio.create_task(bench.preparer.prepare([claim]))
        await bench.clock.until_asleep(7.0)
        bench.clock.pass_time(7.0)
        await bench.clock.until_asleep(0.4)
        bench.clock.pass_time(0.4)
        return await task

    assert asyncio.run(run())["u1"].error == ""
    assert bench.cluster.reads == ["nics"] * 3


def test_back_off_grows_to_a_limit(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.cluster.failures = [ApiUnavailableError("refused")] * 8

    async def run() -> dict[str, PrepareResult]:
        task = asyncio.create_task(bench.preparer.prepare([claim]))
        for pause_s in (0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0):
            await bench.clock.until_asleep(pause_s)
            bench.clock.pass_time(pause_s)
        return await task

    assert asyncio.run(run())["u1"].error == ""


def test_refused_request_is_not_repeated(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.cluster.failures = [RefusedError("may not get resourceclaims")]

    assert bench.error(claim) == "may not get resourceclaims"
    assert bench.cluster.reads == ["nics"]


@pytest.mark.parametrize(
    ("said_s", "over_s"),
    [
        pytest.param(None, 45.0, id="the kubelet's default"),
        pytest.param(10.0, 10.0, id="less"),
        pytest.param(100.0, 45.0, id="more"),
    ],
)
def test_unresponsive_server_is_reported_before_the_deadline(
    bench: Bench, said_s: float | None, over_s: float
) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.cluster.stop_answering()
    began = bench.clock()

    async def run() -> dict[str, PrepareResult]:
        task = asyncio.create_task(bench.preparer.prepare([claim], said_s))
        await bench.cluster.claim_read.wait()
        (left_s,) = bench.clock.asleep()
        bench.clock.pass_time(left_s)
        return await task

    assert asyncio.run(run()) == {
        "u1": PrepareResult(error="no answer in time; waited for the claim from the API server")
    }
    assert over_s / 2 < bench.clock() - began < over_s


# --------------------------------------------------------------------------- beside each other


def test_concurrent_calls_for_a_claim_write_one_record(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")

    async def run() -> tuple[dict[str, PrepareResult], dict[str, PrepareResult]]:
        return await asyncio.gather(
            bench.preparer.prepare([claim, claim]), bench.preparer.prepare([claim])
        )

    first, second = asyncio.run(run())

    assert first == second
    assert nonce_of(first["u1"]) == getattr(bench.record(claim), "nonce", "")


def test_calls_for_a_claim_are_serialized(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")
    bench.cluster.stop_answering()

    async def run() -> list[str]:
        first = asyncio.create_task(bench.preparer.prepare([claim]))
        second = asyncio.create_task(bench.preparer.prepare([claim]))
        await bench.clock.until_asleep(LONGEST_S, 2)
        reads = list(bench.cluster.reads)
        bench.cluster.resume_answering()
        assert await first == await second
        return reads

    assert asyncio.run(run()) == ["nics"]
    assert bench.cluster.reads == ["nics", "nics"]


def test_device_is_given_to_one_of_many_claims(bench: Bench) -> None:
    claims = [bench.cluster.add(f"c{n}", f"u{n}", "a", "b") for n in range(8)]

    answers = bench.prepare_until_timeout(*claims, waiting=7)

    winners = [claim for claim, answer in zip(claims, answers, strict=True) if answer.devices]
    assert len(winners) == 1
    losers = [answer.error for answer in answers if answer.error]
    assert len(losers) == 7
    assert set(losers) == {
        f"device a: in use by claim {winners[0]} of pod ai/train; "
        f"device b: in use by claim {winners[0]} of pod ai/train"
    }


def test_unprepare_cancels_a_waiting_prepare(bench: Bench) -> None:
    give_to_another(bench.state, "a")
    claim = bench.cluster.add("nics", "u1", "a")

    async def run() -> tuple[dict[str, PrepareResult], dict[str, str]]:
        task = asyncio.create_task(bench.preparer.prepare([claim]))
        await bench.clock.until_asleep(0.2)
        unprepared = await bench.preparer.unprepare([claim])
        return await task, unprepared

    answers, unprepared = asyncio.run(run())

    assert answers == {"u1": PrepareResult(error="was unprepared while it was being prepared")}
    assert unprepared == {"u1": ""}
    assert bench.record(claim) is None


def test_cancelled_call_leaves_no_transaction(bench: Bench) -> None:
    claim = bench.cluster.add("nics", "u1", "a")

    async def run() -> bool:
        bench.cluster.scan_unblocked.clear()
        task = asyncio.create_task(bench.preparer.prepare([claim]))
        await bench.cluster.scanned.wait()
        with CheckpointTransaction(bench.state):
            bench.cluster.scan_unblocked.set()
            for _ in range(5):
                await asyncio.sleep(0)
            for _ in range(20):
                task.cancel()
                await asyncio.sleep(0)
            at_work = not task.done()
        with pytest.raises(asyncio.CancelledError):
            await task
        return at_work

    assert asyncio.run(run()), "it must not end while its record may yet be written"
    assert bench.record(claim) is not None
