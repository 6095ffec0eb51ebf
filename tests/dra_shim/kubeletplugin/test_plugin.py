"""Registration and calls: what a kubelet gets from the shim, over gRPC."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from dra_shim.kubeletplugin import RegistrationResult
from dra_shim.kubeletplugin.plugin import WATCH_S
from dra_shim.prepare import PrepareResult, PrepareSettings
from dranet_nri.cdi.names import cdi_ids
from dranet_nri.model import ObjectRef
from tests.dra_shim.kubeletplugin.kubelet_bench import Node, short_directory
from tests.dra_shim.prepare.prepare_bench import Bench
from tests.fakes.cluster import POOL, result
from tests.fakes.kubelet import OF_1_33, OF_1_37, PrepareError, cdi_devices

pytestmark = pytest.mark.process


__all__ = ["short_directory"]


@pytest.fixture
def node(short_directory: Path) -> Iterator[Node]:
    with closing(Node(short_directory)) as made:
        yield made


# --------------------------------------------------------------------------- registration


def test_shim_registers_its_name_and_both_versions(node: Node) -> None:
    async def run() -> None:
        async with node.registered():
            (info,) = node.kubelet.infos
            assert (info.type, info.name) == ("DRAPlugin", "dra.net")
            assert info.endpoint == str(node.sockets.service)
            assert list(info.supported_versions) == ["v1.DRAPlugin", "v1beta1.DRAPlugin"]
            assert node.kubelet.plugins["dra.net"].service == "v1.DRAPlugin"
            assert node.plugin.status.registered
            assert node.notices == [RegistrationResult()]

    asyncio.run(run())


def test_shim_is_unregistered_until_a_kubelet_connects(node: Node) -> None:
    async def run() -> None:
        node.kubelet.start()
        async with node.running():
            assert not node.plugin.status.registered
            assert node.sockets.registration.is_socket()
            assert node.sockets.service.is_socket()

    asyncio.run(run())


@pytest.mark.parametrize(("services", "share"), [(OF_1_37, "5a"), (OF_1_33, "")])
def test_kubelet_is_answered_in_its_version(
    short_directory: Path, services: Sequence[str], share: str
) -> None:
    node = Node(short_directory, services)
    node.bench.cluster.nics.add("hca")
    claim = node.bench.cluster.add("nics", "u1", "hca")
    node.bench.cluster.claims["nics"]["status"]["allocation"]["devices"]["results"] = [
        result("hca", "nic/fast", shareID="5a")
    ]

    async def run() -> None:
        async with node.registered():
            (device,) = (await node.kubelet.prepare(claim))["u1"]
            assert (device.pool_name, device.device_name) == ("node-1", "hca")
            assert list(device.request_names) == ["nic"]
            assert getattr(device, "share_id", "") == share
            await node.kubelet.unprepare(claim)

    asyncio.run(run())
    assert node.bench.record(claim) is None
    node.close()


def test_restarted_kubelet_gets_the_same_answers(node: Node) -> None:
    claim = node.bench.cluster.add("nics", "u1", "a")

    async def run() -> None:
        async with node.registered():
            before = await node.kubelet.prepare(claim)
            await node.kubelet.restart()
            await node.kubelet.look()

            assert await node.kubelet.prepare(claim) == before
            assert node.notices == [RegistrationResult(), RegistrationResult()]

    asyncio.run(run())


@pytest.mark.parametrize("lost", [False, True], ids=["its record is kept", "its record is lost"])
def test_cdi_ids_after_a_reboot_are_resolvable(
    short_directory: Path, lost: bool  # noqa: FBT001 cases
) -> None:  # fmt: skip
    node = Node(short_directory)
    node.kubelet.appends = True
    claim = node.bench.cluster.add("nics", "u1", "a")

    async def run() -> None:
        async with node.registered():
            await node.kubelet.prepare(claim)
        if lost:
            (node.bench.state.allocations / "u1.json").unlink()
        node.bench.close()
        node.bench = Bench(node.bench.state, PrepareSettings(POOL, "boot2"))
        node.bench.cluster.add("nics", "u1", "a")
        node.new_plugin()
        async with node.registered():
            await node.kubelet.prepare(claim)

    asyncio.run(run())
    record = node.bench.record(claim)
    assert record is not None
    assert record.boot_id == "boot2"
    resolved = {cdi_id for _, cdi_id in cdi_ids(record)}
    assert len(node.kubelet.checkpoint["u1"]) == 2
    assert set(cdi_devices(node.kubelet.checkpoint["u1"], "nic")) == resolved
    node.close()


def test_restarted_shim_prepares_and_unprepares_alike(
    node: Node,
) -> None:
    claim = node.bench.cluster.add("nics", "u1", "a")

    async def run() -> None:
        async with node.registered():
            before = await node.kubelet.prepare(claim)
        await node.kubelet.look()
        assert node.kubelet.plugins == {}
        node.new_plugin()
        async with node.registered():
            assert await node.kubelet.prepare(claim) == before
            await node.kubelet.unprepare(claim)

    asyncio.run(run())
    assert node.bench.record(claim) is None


def test_stopped_shim_leaves_the_registry(node: Node) -> None:
    async def run() -> None:
        async with node.registered():
            pass
        await node.kubelet.look()

    asyncio.run(run())
    assert list(node.kubelet.registry.iterdir()) == []
    assert not node.sockets.service.exists()


# --------------------------------------------------------------------------- calls


def test_containers_get_each_cdi_id_once(node: Node) -> None:
    claim = node.bench.cluster.add("nics", "u1", "a", "b")
    node.bench.cluster.claims["nics"]["status"]["allocation"]["devices"]["results"] = [
        result("a", "nic"),
        result("b", "nic"),
        result("c", "look", adminAccess=True),
    ]
    node.bench.cluster.nics.add("c")

    async def run() -> None:
        async with node.registered():
            devices = (await node.kubelet.prepare(claim))["u1"]
            record = node.bench.record(claim)
            assert record is not None
            only = [f"dra.net/nic=ai_nics_nic_{record.nonce}"]
            assert cdi_devices(devices) == only
            assert cdi_devices(devices, "nic") == only
            assert cdi_devices(devices, "look") == []
            assert [device.device_name for device in devices] == ["a", "b", "c"]

    asyncio.run(run())


def test_call_without_claims_is_answered_at_once(node: Node) -> None:
    async def run() -> None:
        async with node.registered():
            assert await node.kubelet.prepare() == {}
            await node.kubelet.unprepare()

    asyncio.run(run())


def test_error_of_a_claim_affects_only_that_claim(node: Node) -> None:
    good = node.bench.cluster.add("good", "u1", "a")
    gone = ObjectRef("ai", "gone", "u2")
    invalid_name = ObjectRef("ai", "../secrets/x", "u3")
    invalid_uid = ObjectRef("ai", "nics", "../u4")

    async def run() -> None:
        async with node.registered():
            answers = await node.kubelet.answers("Prepare", [good, gone, invalid_name, invalid_uid])
            assert sorted(answers) == ["../u4", "u1", "u2", "u3"]
            assert (answers["u1"].error, len(answers["u1"].devices)) == ("", 1)
            assert "does not exist" in answers["u2"].error
            assert answers["u3"].error.startswith(
                "claim ai/../secrets/x: name '../secrets/x': must"
            )
            assert "uid '../u4': must be" in answers["../u4"].error
            with pytest.raises(
                PrepareError, match="failed for ResourceClaim gone: claim ai/gone: "
            ):
                await node.kubelet.prepare(gone)

    asyncio.run(run())
    assert node.bench.cluster.reads == ["good", "gone", "gone"]


def test_unprepare_of_an_unknown_claim_succeeds(node: Node) -> None:
    async def run() -> None:
        async with node.registered():
            await node.kubelet.unprepare(
                ObjectRef("ai", "never-seen", "u7"), ObjectRef("ai", "nics", "../u4")
            )

    asyncio.run(run())


def test_claims_are_prepared_concurrently(node: Node) -> None:
    claims = [node.bench.cluster.add(f"c{n}", f"u{n}", f"d{n}", pod=f"p{n}") for n in range(20)]
    node.bench.cluster.stop_answering()

    async def run() -> None:
        async with node.registered():
            calls = [asyncio.create_task(node.kubelet.prepare(claim)) for claim in claims]
            await node.bench.clock.until_asleep(40.0, 20)
            node.bench.cluster.resume_answering()
            found = [(await call)[claim.uid] for call, claim in zip(calls, claims, strict=True)]
            assert [answer[0].device_name for answer in found] == [f"d{n}" for n in range(20)]
            await asyncio.gather(*(node.kubelet.unprepare(claim) for claim in claims))

    asyncio.run(run())
    assert [node.bench.record(claim) for claim in claims] == [None] * 20


class Slow:
    """A driver that answers when it is cancelled, which is never."""

    def __init__(self) -> None:
        self.limits: list[float | None] = []
        self.claim_read = asyncio.Event()
        self.ended = asyncio.Event()

    async def prepare(
        self, claims: Sequence[ObjectRef], limit_s: float | None = None
    ) -> dict[str, PrepareResult]:
        self.limits.append(limit_s)
        self.claim_read.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        raise AssertionError

    async def unprepare(self, claims: Sequence[ObjectRef]) -> dict[str, str]:
        raise RuntimeError("oops")


def test_cancelled_call_of_the_kubelet_is_cancelled(node: Node) -> None:
    async def run() -> None:
        slow = Slow()
        node.new_plugin(slow)
        async with node.registered():
            call = asyncio.create_task(node.kubelet.prepare(ObjectRef("ai", "nics", "u1")))
            await slow.claim_read.wait()
            call.cancel()
            await slow.ended.wait()
            await asyncio.wait({call})
        (limit_s,) = slow.limits
        assert limit_s is not None
        assert 0 < limit_s < 46

    asyncio.run(run())


def test_fault_in_a_call_affects_no_other_call(node: Node) -> None:
    async def run() -> None:
        node.new_plugin(Slow())
        async with node.registered():
            for _ in range(2):
                with pytest.raises(PrepareError, match="rpc error: UNKNOWN"):
                    await node.kubelet.unprepare(ObjectRef("ai", "nics", "u1"))

    asyncio.run(run())


def test_running_call_is_answered_at_shutdown(node: Node) -> None:
    claim = node.bench.cluster.add("nics", "u1", "a")
    node.bench.cluster.stop_answering()

    async def run() -> None:
        node.kubelet.start()
        shim = asyncio.create_task(node.plugin.run())
        await node.clock.until_asleep(WATCH_S)
        await node.kubelet.look()
        call = asyncio.create_task(node.kubelet.prepare(claim))
        await node.bench.cluster.claim_read.wait()
        shim.cancel()
        while node.sockets.service.exists():  # noqa: ASYNC110 - nobody tells that a file is gone
            await asyncio.sleep(0)
        node.bench.cluster.resume_answering()
        assert len((await call)["u1"]) == 1
        await asyncio.wait({shim})
        await node.kubelet.restart()

    asyncio.run(run())
