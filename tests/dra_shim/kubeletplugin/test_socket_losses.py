"""Sockets that are wiped, registrations that do not come, directories that are not there."""

import asyncio
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import grpc
import pytest

from dra_shim._gen.pluginregistration_v1_pb2 import InfoRequest
from dra_shim.kubeletplugin import (
    RegistrationResult,
    SocketFailed,
    SocketReplaced,
    probe,
    sockets_of,
)
from dra_shim.kubeletplugin.plugin import ANSWER_S, LONGEST_ANSWER_S, WATCH_S
from dra_shim.kubeletplugin.sockets import MAX_PATH
from dranet_nri.model import ObjectRef
from tests.dra_shim.kubeletplugin.kubelet_bench import Node, short_directory
from tests.fakes.kubelet import PrepareError

pytestmark = pytest.mark.process


__all__ = ["short_directory"]

LOOKS = int(ANSWER_S / WATCH_S)  # until patience is over


@pytest.fixture
def node(short_directory: Path) -> Iterator[Node]:
    with closing(Node(short_directory)) as made:
        yield made


def is_registered(node: Node) -> bool:
    return node.plugin.status.registered


async def answers(node: Node) -> str:
    """Probe with more patience than a busy machine needs."""
    return await probe(node.sockets.registration, 30.0)


def forgotten(node: Node) -> list[bool]:
    """Return of each socket made anew whether the kubelet had to register us again."""
    return [notice.forgotten for notice in node.notices if isinstance(notice, SocketReplaced)]


def replaced(node: Node) -> list[str]:
    """Return the reasons for which sockets were made anew."""
    return [notice.reason for notice in node.notices if isinstance(notice, SocketReplaced)]


# --------------------------------------------------------------------------- wiped


def test_deleted_sockets_are_recreated_and_registered_again(node: Node) -> None:
    claim = node.bench.cluster.add("nics", "u1", "a")

    async def run() -> None:
        async with node.registered():
            node.sockets.registration.unlink()
            node.sockets.service.unlink()
            await node.kubelet.look()
            with pytest.raises(PrepareError, match="is not registered"):
                await node.kubelet.prepare(claim)

            await node.watch()
            assert not is_registered(node)
            await node.kubelet.look()

            assert len((await node.kubelet.prepare(claim))["u1"]) == 1
            assert is_registered(node)
            assert await answers(node) == ""
        assert replaced(node) == ["it was gone", "it was gone"]
        assert forgotten(node) == [False, True], "the service's, then the registration's"
        assert node.kubelet.trouble == []

    asyncio.run(run())


def test_deleted_directory_is_recreated(node: Node) -> None:
    claim = node.bench.cluster.add("nics", "u1", "a")

    async def run() -> None:
        async with node.registered():
            shutil.rmtree(node.sockets.service.parent)
            await node.watch()
            await node.kubelet.restart()
            await node.kubelet.look()

            assert len((await node.kubelet.prepare(claim))["u1"]) == 1

    asyncio.run(run())


def test_server_serves_again_on_recreated_sockets(node: Node) -> None:
    claim = node.bench.cluster.add("nics", "u1", "a")

    async def run() -> None:
        async with node.registered():
            pass
        assert not is_registered(node)
        async with node.registered():
            assert is_registered(node)
            assert len((await node.kubelet.prepare(claim))["u1"]) == 1
        assert replaced(node) == [], "they were not missing"

    asyncio.run(run())


def test_existing_sockets_are_kept(node: Node) -> None:
    async def run() -> None:
        async with node.registered():
            before = [
                path.stat().st_ino for path in (node.sockets.registration, node.sockets.service)
            ]
            await node.watch(3 * LOOKS)
            after = [
                path.stat().st_ino for path in (node.sockets.registration, node.sockets.service)
            ]
            assert before == after
            assert node.notices == [RegistrationResult()]

    asyncio.run(run())


def test_replaced_socket_is_recreated(node: Node) -> None:
    async def run() -> None:
        async with node.registered():
            node.sockets.service.unlink()
            with socket.socket(socket.AF_UNIX) as other:
                other.bind(str(node.sockets.service))
                await node.watch()
            assert await answers(node) == ""

    asyncio.run(run())


def test_running_call_is_answered_after_its_socket_was_replaced(node: Node) -> None:
    claim = node.bench.cluster.add("nics", "u1", "a")
    node.bench.cluster.stop_answering()

    async def run() -> None:
        async with node.registered():
            call = asyncio.create_task(node.kubelet.prepare(claim))
            await node.bench.cluster.claim_read.wait()
            node.sockets.service.unlink()
            await node.watch()
            assert await answers(node) == ""
            node.bench.cluster.resume_answering()
            assert len((await call)["u1"]) == 1
            await node.kubelet.unprepare(claim)  # by a connection to the new one
            assert node.sockets.service.is_socket(), "the end of the old server must not remove it"

    asyncio.run(run())


def test_leftover_socket_of_a_crash_is_replaced(node: Node) -> None:
    node.kubelet.start()
    node.sockets.service.parent.mkdir()
    for path in (node.sockets.registration, node.sockets.service):
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))
    with socket.socket(socket.AF_UNIX) as draft:
        draft.bind(str(node.sockets.service.with_name(".dra-abc")))

    async def run() -> None:
        async with node.registered():
            assert await answers(node) == ""
        assert list(node.kubelet.registry.iterdir()) == []
        assert list(node.sockets.service.parent.iterdir()) == []

    asyncio.run(run())


# --------------------------------------------------------------------------- not registered


def test_failed_registration_is_retried_with_a_new_socket(node: Node) -> None:
    async def run() -> None:
        node.kubelet.start()
        node.kubelet.forgets_failures = False  # 1.35: only a new socket makes it try again
        node.kubelet.refusal = "no room for\nplugins"
        async with node.running():
            await node.kubelet.look()
            assert not is_registered(node)
            assert node.plugin.status.reason == "no room for plugins"
            node.kubelet.refusal = ""
            await node.watch(LOOKS - 1)
            await node.kubelet.look()
            assert not is_registered(node), "the socket is the same"

            await node.watch()
            await node.kubelet.look()

            assert is_registered(node)
            assert node.plugin.status.reason == ""
        assert node.notices[0] == RegistrationResult("no room for plugins")
        assert replaced(node) == ["not registered by the kubelet for 60 s: no room for plugins"]
        await node.kubelet.restart()

    asyncio.run(run())


def test_retry_delay_starts_at_the_rejection(node: Node) -> None:
    async def run() -> None:
        node.kubelet.start()
        node.kubelet.refusal = "no room"
        async with node.running():
            await node.watch(LOOKS - 1)
            await node.kubelet.look()

            await node.watch(LOOKS - 1)
            assert replaced(node) == [], "it may think better of it, as one of 1.36 does"

            await node.watch()
            assert replaced(node) == ["not registered by the kubelet for 60 s: no room"]
        await node.kubelet.restart()

    asyncio.run(run())


def test_wait_for_a_silent_kubelet_grows(node: Node) -> None:
    async def run() -> None:
        node.kubelet.start()
        async with node.running():
            for waited_s in (60, 120, 240, 480, 600, 600):
                before = len(replaced(node))
                await node.watch(int(waited_s / WATCH_S) - 1)
                assert len(replaced(node)) == before
                await node.watch()
                assert replaced(node)[before:] == [
                    f"not registered by the kubelet for {waited_s} s: no answer; check"
                    " its --root-dir"
                ]
            assert waited_s == LONGEST_ANSWER_S
            await node.kubelet.look()
            assert is_registered(node)
            await node.kubelet.restart()

            node.sockets.registration.unlink()  # from now on its patience is young again
            await node.watch(1 + LOOKS)
            assert len(replaced(node)) == 8

    asyncio.run(run())


def test_rejection_of_unsupported_versions_is_reported(short_directory: Path) -> None:
    node = Node(short_directory, ("v2.DRAPlugin",))

    async def run() -> None:
        node.kubelet.start()
        async with node.running():
            await node.kubelet.look()
            assert node.plugin.status.reason.startswith("none of services supported by the plugin")

    asyncio.run(run())


# --------------------------------------------------------------------------- not possible


def test_missing_kubelet_directory_is_reported_once_and_awaited(node: Node) -> None:
    async def run() -> None:
        async with node.running():
            await node.watch(2)
            (failed,) = node.notices
            assert isinstance(failed, SocketFailed)
            assert "is the kubelet's directory right (--kubelet-root-dir)" in failed.reason
            assert node.plugin.status.socket_error == failed.reason
            (node.kubelet.root / "plugins").mkdir(parents=True)
            await node.watch(2)
            other = node.notices[-1]
            assert isinstance(other, SocketFailed)
            assert f"{node.kubelet.registry}/: there is no such directory" in other.reason

            node.kubelet.start()
            await node.watch()
            await node.kubelet.look()
            assert is_registered(node)
            assert node.plugin.status.socket_error == ""
        assert node.notices == [failed, other, RegistrationResult()]
        await node.kubelet.restart()

    asyncio.run(run())


def test_directory_at_the_socket_path_is_reported(node: Node) -> None:
    async def run() -> None:
        node.kubelet.start()
        node.sockets.registration.mkdir()
        async with node.running():
            assert "Is a directory" in node.plugin.status.socket_error
            assert list(node.kubelet.registry.iterdir()) == [node.sockets.registration]
            assert node.sockets.service.is_socket()

    asyncio.run(run())


def test_socket_that_cannot_be_bound_is_reported(node: Node) -> None:
    node.sockets = sockets_of(node.kubelet.root, "dra.net")
    node.kubelet.start()
    node.sockets.service.parent.mkdir()
    too_long = node.kubelet.registry / ("x" * MAX_PATH)
    too_long.mkdir()
    node.sockets = type(node.sockets)(
        too_long / "dra.net-reg.sock", node.sockets.service, node.sockets.lock
    )
    node.new_plugin()

    async def run() -> None:
        async with node.running():
            assert "cannot be bound" in node.plugin.status.socket_error

    asyncio.run(run())


def test_longest_socket_path_is_served(short_directory: Path) -> None:
    fill = MAX_PATH - len(str(short_directory)) - len("//k/plugins_registry/dra.net-reg.sock")
    node = Node(short_directory / ("x" * fill))
    assert len(os.fsencode(node.sockets.registration)) == MAX_PATH

    async def run() -> None:
        async with node.registered():
            assert await answers(node) == ""

    asyncio.run(run())


def test_socket_path_with_special_characters_is_served(short_directory: Path) -> None:
    node = Node(short_directory / "a%20b ü")
    claim = node.bench.cluster.add("nics", "u1", "a")

    async def run() -> None:
        async with node.registered():
            assert await answers(node) == ""
            assert len((await node.kubelet.prepare(claim))["u1"]) == 1

    asyncio.run(run())
    node.close()


# --------------------------------------------------------------------------- the probe


def test_probe_names_the_unresponsive_socket(node: Node) -> None:
    async def run() -> None:
        async with node.registered():
            node.sockets.service.unlink()
            assert str(node.sockets.service) in await answers(node)
        assert str(node.sockets.registration) in await answers(node)

    asyncio.run(run())


def test_probe_detects_a_hung_and_a_failed_shim(node: Node) -> None:
    class Failing:
        async def prepare(self, claims: object, limit_s: object = None) -> dict[str, object]:
            raise RuntimeError("oops")

        async def unprepare(self, claims: object) -> dict[str, str]:
            return {}

    async def run() -> None:
        node.new_plugin(Failing())  # type: ignore[arg-type]
        async with node.registered():
            assert (await answers(node)).startswith("UNKNOWN: ")
        with socket.socket(socket.AF_UNIX) as silent:
            silent.bind(str(node.sockets.registration))
            silent.listen()
            assert (await probe(node.sockets.registration, 0.1)).startswith("DEADLINE_EXCEEDED")

    asyncio.run(run())


def test_probe_ignores_earlier_connection_failures_of_its_process(
    node: Node,
) -> None:
    async def run() -> None:
        async with grpc.aio.insecure_channel(f"unix:{node.sockets.registration}") as early:
            write, read = InfoRequest.SerializeToString, InfoRequest.FromString
            with pytest.raises(grpc.aio.AioRpcError):
                await early.unary_unary("/early/Call", write, read)(InfoRequest(), timeout=30)
            async with node.registered():
                assert await answers(node) == ""

    asyncio.run(run())


def test_probe_prepares_nothing(node: Node) -> None:
    async def run() -> None:
        async with node.registered():
            assert await answers(node) == ""

    asyncio.run(run())
    assert node.bench.cluster.reads == []
    assert node.bench.record(ObjectRef("", "", "")) is None
