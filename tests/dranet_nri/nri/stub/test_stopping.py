"""Hooks refused by a stopping plugin, on a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dranet_nri._gen import nri_pb2
from dranet_nri.model import Pod
from dranet_nri.nri.stub import Connection, Endpoint
from dranet_nri.nri.wire.ttrpc import RpcCode, TtrpcResponse
from tests.dranet_nri.hooks.plugin_node import node
from tests.dranet_nri.nri.stub.plugin_bench import REMOVE, RUN, STOP, container_message, finish
from tests.fakes.clock import FakeClock
from tests.fakes.node import Node, PausedExecutor
from tests.fakes.runtime import RuntimeConnection, RuntimeServer, pod_message

pytestmark = pytest.mark.process


__all__ = ["node"]


@asynccontextmanager
async def stopping(
    node: Node, busy: Pod, paused: PausedExecutor
) -> AsyncIterator[RuntimeConnection]:
    """Run the node's plugin, and let it stop while it attaches the claim of a pod."""
    path, clock = str(node.root / "nri.sock"), FakeClock()
    endpoint = Endpoint("dra.net", "00", path)
    connection = Connection(
        endpoint, node.plugin, lambda _notice: None, clock=clock, sleep=clock.sleep
    )
    async with RuntimeServer(path) as server, asyncio.TaskGroup() as tasks:
        tasks.create_task(connection.run())
        runtime = await server.connection()
        await runtime.handshake()
        runtime.runtime.pod_event(RUN, message(busy), 0)
        runtime.send()
        await asyncio.to_thread(paused.begun.wait)
        connection.close()
        await clock.until_asleep(5.0)
        yield runtime
        paused.go.set()


def message(pod: Pod) -> nri_pb2.PodSandbox:
    """Return the sandbox as the runtime shows it."""
    return pod_message(pod.sandbox_id, uid=pod.uid, netns=pod.netns_path)


async def answers(runtime: RuntimeConnection, pod: Pod) -> list[TtrpcResponse]:
    """Return the answers to one event of each kind."""
    streams = [runtime.runtime.pod_event(kind, message(pod)) for kind in (RUN, STOP, REMOVE)]
    container = container_message(pod.sandbox_id)
    streams.append(runtime.runtime.create_container(message(pod), container))
    return [await runtime.answer(stream) for stream in streams]


def test_case_40_stopping_plugin_refuses_no_unclaimed_pod(node: Node) -> None:
    claimed, busy, ordinary = (node.pod(name) for name in ("claimed", "busy", "ordinary"))
    node.allocate(claimed, 1, claim="one")
    node.allocate(busy, 2, claim="two")
    node.run_pod(claimed)
    paused = node.pause()

    async def scenario() -> None:
        async with stopping(node, busy, paused) as runtime:
            assert [answer.status for answer in await answers(runtime, ordinary)] == [None] * 4

    finish(scenario())


@pytest.mark.parametrize(("may_reject", "refusals"), [(True, 3), (False, 0)])
def test_case_40_stopping_plugin_refuses_a_claimed_pod_up_to_the_rejection_limit(
    node: Node, *, may_reject: bool, refusals: int
) -> None:
    node.plugin.may_reject = may_reject
    pods = [node.pod("claimed", f"try{number}") for number in range(4)]
    busy = node.pod("busy")
    node.allocate(pods[0], 1, claim="one")
    node.allocate(busy, 2, claim="two")
    paused = node.pause()

    async def scenario() -> None:
        async with stopping(node, busy, paused) as runtime:
            events = [runtime.runtime.pod_event(RUN, message(pod)) for pod in pods]
            refused = [(await runtime.answer(stream)).status is not None for stream in events]
            assert refused == [True] * refusals + [False] * (4 - refusals)
            container = container_message(pods[3].sandbox_id)
            create = runtime.runtime.create_container(message(pods[3]), container)
            status = (await runtime.answer(create)).status
            assert status is not None
            assert status.code == RpcCode.UNAVAILABLE

    finish(scenario())
