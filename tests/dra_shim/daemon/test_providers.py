"""The providers of a node, built as the daemon builds them."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from dra_shim.cloud.directory import CloudFailed, CloudNotice
from dra_shim.cloud.provider import CloudError
from dra_shim.daemon.providers import NodeProviders
from dra_shim.settings.common import StatePaths
from dra_shim.settings.providers import ProviderSettings
from dranet_nri.model import Device, DeviceKey, NetworkConfig
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.provider_server import Reply, Script, served

pytestmark = pytest.mark.process

DEVICE = Device("eth1", DeviceKey("", "", "eth1"))
PARAMETERS = {"interface": {"mtu": 9000}}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dra_shim.cloud.directory.FIRST_S", 0.0)
    monkeypatch.setattr("dra_shim.cloud.directory._FIRST_PAUSE_S", 0.01)


class Node:
    """A node outside a cloud, whose API server has an outage until `is_up` is set."""

    def __init__(self, directory: Path, url: str) -> None:
        self.is_up = False
        self.failed, self.changed = asyncio.Event(), asyncio.Event()
        self.providers = NodeProviders(
            ProviderSettings(webhook=url),
            StatePaths(directory),
            self.labels,
            self.changed.set,
            self.on_notice,
            directory,
        )

    async def labels(self) -> Mapping[str, str]:
        if self.is_up:
            return {}
        raise CloudError("get Node n: no connection")

    def on_notice(self, notice: CloudNotice) -> None:
        if isinstance(notice, CloudFailed):
            self.failed.set()

    def parameters(self) -> tuple[str, Mapping[str, object]]:
        return self.providers.clouds.parameters(DEVICE, NetworkConfig())


def test_prepare_waits_for_the_webhook_until_the_provider_is_selected(tmp_path: Path) -> None:
    async def scenario(url: str) -> None:
        node = Node(tmp_path, url)
        clouds = node.providers.clouds
        await clouds.update_devices([DEVICE])
        async with asyncio.TaskGroup() as group:
            work = group.create_task(clouds.run())
            await node.failed.wait()
            with pytest.raises(CloudError, match=r"device eth1: .* no facts about it yet"):
                node.parameters()
            node.is_up = True
            await node.changed.wait()
            assert node.parameters() == ("webhook", PARAMETERS)
            work.cancel()
        await node.providers.close()

    replies = {
        "GET /health": Reply({"cloudProvider": True}),
        "POST /GetDeviceAttributes": Reply({}),
        "POST /GetDeviceConfig": Reply(PARAMETERS),
    }
    with served(Script(replies)) as url:
        finish(scenario(url))


def test_prepare_without_webhook_does_not_wait_for_the_selection(tmp_path: Path) -> None:
    async def scenario() -> None:
        node = Node(tmp_path, "")
        await node.providers.clouds.update_devices([DEVICE])
        assert node.parameters() == ("", {})

    finish(scenario())
