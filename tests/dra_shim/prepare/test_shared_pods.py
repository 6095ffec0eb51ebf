"""Claims of one pod in one call: how often the pod is requested."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from dra_shim.prepare import ApiUnavailableError, PrepareResult
from dra_shim.prepare.preparer import FIRST_PAUSE_S
from dra_shim.prepare.shared_pods import SharedPods
from dra_shim.settings.common import StatePaths
from dranet_nri.model import ObjectRef
from tests.dra_shim.prepare.prepare_bench import Bench, give_to_another
from tests.dra_shim.prepare.test_retry import later

pytestmark = pytest.mark.process


class Requests:
    """Requests for pods: their names, and the error of the next one."""

    def __init__(self, bench: Bench) -> None:
        self.names: list[str] = []
        self.error: Exception | None = None
        self._answer = bench.cluster.pod

    async def pod(self, ref: ObjectRef) -> Mapping[str, object] | None:
        self.names.append(ref.name)
        error, self.error = self.error, None
        if error is not None:
            raise error
        return await self._answer(ref)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with closing(Bench(StatePaths(tmp_path / "state", tmp_path / "run"))) as made:
        yield made


@pytest.fixture
def requests(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Requests:
    made = Requests(bench)
    monkeypatch.setattr(bench.cluster, "pod", made.pod)
    return made


def test_pod_of_all_claims_is_requested_once(bench: Bench, requests: Requests) -> None:
    claims = [bench.cluster.add(f"nic-{name}", f"u-{name}", name) for name in "abc"]

    answers = bench.prepare(*claims)

    assert [answer.error for answer in answers] == ["", "", ""]
    assert requests.names == ["train"]


def test_each_pod_is_requested(bench: Bench, requests: Requests) -> None:
    one = bench.cluster.add("one", "u1", "a", pod="train", pod_uid="p1")
    two = bench.cluster.add("two", "u2", "b", pod="infer", pod_uid="p2")

    answers = bench.prepare(one, two)

    assert [answer.error for answer in answers] == ["", ""]
    assert sorted(requests.names) == ["infer", "train"]


def test_pods_are_requested_at_the_same_time() -> None:
    both = asyncio.Barrier(2)

    class Server:
        async def pod(self, ref: ObjectRef) -> Mapping[str, object] | None:
            await both.wait()
            return {"name": ref.name}

    async def run() -> list[Mapping[str, object] | None]:
        pods = SharedPods(Server())
        async with asyncio.timeout(1):
            return await asyncio.gather(*(pods.pod(ObjectRef("ai", one, one)) for one in "ab"))

    assert asyncio.run(run()) == [{"name": "a"}, {"name": "b"}]


def test_error_is_that_of_all_claims_and_each_retries(bench: Bench, requests: Requests) -> None:
    requests.error = ApiUnavailableError("no answer")
    one, two = (bench.cluster.add(f"nic-{name}", f"u-{name}", name) for name in "ab")

    async def run() -> Mapping[str, PrepareResult]:
        task = asyncio.create_task(bench.preparer.prepare([one, two]))
        await bench.clock.until_asleep(FIRST_PAUSE_S, 2)
        assert requests.names == ["train"]
        bench.clock.pass_time(FIRST_PAUSE_S)
        return await task

    answers = asyncio.run(run())

    assert [answer.error for answer in answers.values()] == ["", ""]
    assert requests.names == ["train"] * 3


def test_retry_requests_the_pod_again(bench: Bench, requests: Requests) -> None:
    give_to_another(bench.state, "a")
    claim = bench.cluster.add("nics", "u1", "a")

    def replace_pod() -> None:
        bench.cluster.pods["train"]["metadata"]["uid"] = "p2"

    answer = later(bench, claim, replace_pod)

    assert answer.error == "pod ai/train: does not exist any more with UID p1"
    assert requests.names == ["train", "train"]
