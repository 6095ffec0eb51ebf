"""Device health as streamed to a kubelet: the first list, each change, and a new stream."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dra_shim.kubeletplugin import health_services
from dra_shim.pool import DeviceHealth, HealthReport
from tests.dra_shim.kubeletplugin.kubelet_bench import Node, short_directory
from tests.fakes.kubelet import PrepareError

pytestmark = pytest.mark.process


__all__ = ["short_directory"]

NEVER_S = 3600.0
GOOD = DeviceHealth("node-1", "a", healthy=True)
BAD = DeviceHealth("node-1", "b", healthy=False, message="link down")
UNSURE = DeviceHealth("node-1", "c", healthy=None)


class Devices:
    """Devices that a test lets fail."""

    def __init__(self, *devices: DeviceHealth) -> None:
        self.report = HealthReport(1, devices)
        self._changed = asyncio.Condition()

    async def health(self, seen: int | None) -> HealthReport:
        async with self._changed:
            await self._changed.wait_for(lambda: self.report.number != seen)
            return self.report

    async def become(self, *devices: DeviceHealth) -> None:
        async with self._changed:
            self.report = HealthReport(self.report.number + 1, devices)
            self._changed.notify_all()


def health_rows(devices: list[Any]) -> list[tuple[str, str, int, str]]:
    return [
        (device.device.pool_name, device.device.device_name, device.health, device.message)
        for device in devices
    ]


def node_with(short_directory: Path, devices: Devices, refresh_s: float = NEVER_S) -> Node:
    node = Node(short_directory)
    times = iter(range(1_700_000_000, 1_800_000_000))
    node.new_plugin(
        more=health_services(devices, refresh_s=refresh_s, wall=lambda: float(next(times)))
    )
    return node


def listening(node: Node) -> "aclosing[AsyncGenerator[list[Any]]]":
    return aclosing(node.kubelet.watch_health())


@pytest.mark.parametrize("version", ["v1", "v1alpha1"])
def test_health_stream_sends_all_devices_at_start_and_on_change(
    short_directory: Path, version: str
) -> None:
    devices = Devices(GOOD, BAD, UNSURE)
    node = node_with(short_directory, devices)
    node.kubelet.health = (f"{version}.DRAResourceHealth",)

    async def run() -> None:
        async with node.registered(), listening(node) as stream:
            first = await anext(stream)
            assert health_rows(first) == [
                ("node-1", "a", 1, ""),
                ("node-1", "b", 2, "link down"),
                ("node-1", "c", 0, ""),
            ]
            assert [device.last_updated_time for device in first] == [1_700_000_000] * 3

            await devices.become(GOOD)
            assert health_rows(await anext(stream)) == [("node-1", "a", 1, "")]

    asyncio.run(run())


def test_kubelet_uses_its_newest_supported_version(short_directory: Path) -> None:
    node = node_with(short_directory, Devices(GOOD))

    async def run() -> None:
        async with node.registered():
            assert node.kubelet.plugins["dra.net"].health == "v1.DRAResourceHealth"
            assert list(node.kubelet.infos[0].supported_versions) == [
                "v1.DRAPlugin",
                "v1beta1.DRAPlugin",
                "v1.DRAResourceHealth",
                "v1alpha1.DRAResourceHealth",
            ]

    asyncio.run(run())


def test_health_is_sent_again_before_it_expires(short_directory: Path) -> None:
    node = node_with(short_directory, Devices(GOOD), refresh_s=0.01)

    async def run() -> None:
        async with node.registered(), listening(node) as stream:
            found = [await anext(stream) for _ in range(3)]
            assert [health_rows(device) for device in found] == [[("node-1", "a", 1, "")]] * 3
            times = [device[0].last_updated_time for device in found]
            assert times == sorted(set(times))

    asyncio.run(run())


def test_health_streams_are_independent(short_directory: Path) -> None:
    devices = Devices(GOOD)
    node = node_with(short_directory, devices)

    async def run() -> None:
        async with node.registered(), listening(node) as one:
            async with listening(node) as other:
                await anext(one)
                await anext(other)
            await devices.become(BAD)
            assert health_rows(await anext(one)) == [("node-1", "b", 2, "link down")]

    asyncio.run(run())


def test_long_health_message_is_truncated(short_directory: Path) -> None:
    node = node_with(
        short_directory, Devices(DeviceHealth("node-1", "a", healthy=False, message="x" * 2000))
    )

    async def run() -> None:
        async with node.registered(), listening(node) as stream:
            assert len((await anext(stream))[0].message) == 1024

    asyncio.run(run())


def test_shim_without_health_does_not_advertise_it(short_directory: Path) -> None:
    node = Node(short_directory)

    async def run() -> None:
        async with node.registered():
            with pytest.raises(PrepareError, match="tells no health"):
                async with listening(node) as stream:
                    await anext(stream)

    asyncio.run(run())


def test_streams_end_before_the_server_stops(short_directory: Path) -> None:
    ends: list[str] = []
    node = Node(short_directory)
    services = health_services(Devices(GOOD))

    def end() -> None:
        ends.append("told")
        services[0].end()

    node.new_plugin(more=[replace(services[0], end=end)])

    async def run() -> None:
        async with node.registered():
            stream = node.kubelet.watch_health()
            await anext(stream)
            assert ends == []
            services[0].end()
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
            assert len(await node.kubelet.answers("Prepare", [])) == 0
        assert ends == ["told"]

    asyncio.run(run())


def test_restarted_server_has_streams(short_directory: Path) -> None:
    node = node_with(short_directory, Devices(GOOD))

    async def run() -> None:
        node.kubelet.start()
        for _ in range(2):
            async with node.running():
                await node.kubelet.look()
                async with listening(node) as stream:
                    assert health_rows(await anext(stream)) == [("node-1", "a", 1, "")]
        await node.kubelet.restart()

    asyncio.run(run())
