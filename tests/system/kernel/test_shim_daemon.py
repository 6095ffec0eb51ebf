"""`dra-shim run` as a process: a server in memory behind a socket, a kubelet as drivers meet it.

The node is a private network namespace; its NICs are the ends of virtual wires.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from httpx2 import AsyncClient

from dra_shim.kubeapi import CLAIM, NODE, POD, SLICE, ApiClient
from dra_shim.settings.common import StatePaths
from dranet_nri.model import ObjectRef
from dranet_nri.state.reader import AllocationReader
from tests.dra_shim.kubeapi.client_bench import client_of
from tests.dra_shim.migration.takeover_bench import lists_claims
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.cluster import claim_document, pod_document, result, user
from tests.fakes.http import served
from tests.fakes.kubelet import FakeKubelet

ROOT = Path(__file__).parents[3]
NODE_1 = "node-1"
IF_NAME = 'attributes["dra.net/ifName"].StringValue'
OWN_NICS = f'"dra.net/ifName" in attributes && {IF_NAME}.startsWith("nic")'
SLICE_OF_BEFORE = {
    "metadata": {"name": "node-1-dra.net-x7k2p"},
    "spec": {
        "driver": "dra.net",
        "nodeName": NODE_1,
        "pool": {"name": NODE_1, "generation": 1, "resourceSliceCount": 1},
        "devices": [
            {
                "name": "pci-0000-8a-00-0",
                "attributes": {
                    "dra.net/ifName": {"string": "nic9"},
                    "dra.net/pciAddress": {"string": "0000:8a:00.0"},
                },
            }
        ],
    },
}


@dataclass
class Site:
    """Everything around one shim process."""

    root: Path
    url: str
    server: FakeApiServer
    api: ApiClient
    kubelet: FakeKubelet

    @property
    def state(self) -> StatePaths:
        """Return where its records are."""
        return StatePaths(self.root / "state", self.root / "run")

    def command(self, *flags: str) -> list[str]:
        """Return the command line; flags come last and win."""
        return [
            *(sys.executable, "-m", "dra_shim", "run", "--log-format", "json"),
            *("--kubeconfig", str(self.root / "kubeconfig")),
            *("--kubelet-root-dir", str(self.kubelet.root)),
            *("--state-dir", str(self.state.directory), "--run-dir", str(self.state.run)),
            *("--filter", OWN_NICS),
            *("--hostname-override", NODE_1, "--bind-address", "127.0.0.1:0"),
            *flags,
        ]


@dataclass
class Shim:
    """One process and what it logged so far."""

    process: asyncio.subprocess.Process
    lines: list[dict[str, Any]]

    async def until(self, event: str, **facts: object) -> dict[str, Any]:
        """Return the first later line of this event."""
        assert self.process.stderr is not None
        while True:
            line = await self.process.stderr.readline()
            assert line, f"{event}: the shim ended; it said {self.lines}"
            self.lines.append(json.loads(line))
            if self.lines[-1]["event"] == event and facts.items() <= self.lines[-1].items():
                return self.lines[-1]

    async def stop(self) -> int:
        """End it as a kubelet does, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.stderr is not None
        await self.process.stderr.read()
        return await self.process.wait()


@asynccontextmanager
async def site(directory: Path) -> AsyncIterator[Site]:
    server, kubelet = FakeApiServer(), FakeKubelet(directory / "kubelet")
    kubelet.root.mkdir()
    kubelet.start()
    async with served(server) as url:
        cluster = {"name": "c", "cluster": {"server": url}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        document = {
            "apiVersion": "v1", "kind": "Config", "current-context": "x",
            "clusters": [cluster], "contexts": [context], "users": [{"name": "u", "user": {}}],
        }  # fmt: skip
        (directory / "kubeconfig").write_text(json.dumps(document))
        async with client_of(url) as api:
            await api.create(NODE, {"metadata": {"name": NODE_1}})
            yield Site(directory, url, server, api, kubelet)


@asynccontextmanager
async def running(node: Site, *flags: str) -> AsyncIterator[Shim]:
    process = await asyncio.create_subprocess_exec(
        *node.command(*flags), env=os.environ | {"PYTHONPATH": str(ROOT)},
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Shim(process, [])
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@contextmanager
def nic(name: str) -> Iterator[None]:
    """Add a link meanwhile."""
    subprocess.run(("ip", "link", "add", name, "type", "veth", "peer", f"peer-{name}"), check=True)
    try:
        yield
    finally:
        subprocess.run(("ip", "link", "del", name), check=True)


async def offered(node: Site) -> set[str]:
    """Return the devices that are published on the server."""
    found: set[str] = set()
    for document in (await node.api.list(SLICE)).items:
        spec: Any = document["spec"]
        found |= {device["name"] for device in spec.get("devices", ())}
    return found


async def allocated(node: Site, name: str, device: str) -> ObjectRef:
    """Add a claim that has the device, and the pod that has the claim."""
    pod = pod_document("train", "", {"nics": name})
    made: Any = await node.api.create(POD, {**pod, "metadata": {"name": "train"}}, "ai")
    users = [user("train", made["metadata"]["uid"])]
    document = claim_document(name, "", [result(device)], users)
    claim: Any = await node.api.create(CLAIM, {**document, "metadata": {"name": name}}, "ai")
    status = document["status"]
    node.server.alter("resourceclaims", name, lambda entry: entry.update(status=status), "ai")
    return ObjectRef("ai", name, claim["metadata"]["uid"])


def recorded(node: Site, claim: ObjectRef) -> bool:
    """Whether there is a record of the claim."""
    with AllocationReader(node.state.allocations, owner=None) as records:
        return records.get(claim.uid) is not None


def test_claim_is_prepared_and_unprepared_by_a_running_shim(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with site(tmp_path) as node, running(node) as shim:
            await shim.until("serving", node=NODE_1)
            await shim.until("published", devices=1)
            assert await offered(node) == {"nic0"}
            await node.kubelet.look()
            assert list(node.kubelet.plugins) == ["dra.net"], node.kubelet.trouble

            claim = await allocated(node, "nics", "nic0")
            prepared = await node.kubelet.prepare(claim)
            (device,) = prepared[claim.uid]
            assert (device.pool_name, device.device_name) == (NODE_1, "nic0")
            assert recorded(node, claim)

            await shim.until("prepared", claim="ai/nics", gated=True)

            await node.kubelet.unprepare(claim)
            assert not recorded(node, claim)

            assert await shim.stop() == 0
            assert list(node.kubelet.registry.iterdir()) == []
            assert await offered(node) == {"nic0"}, "slices outlive an update"

    with nic("nic0"):
        finish(scenario())


def test_added_nic_is_published_and_removed_nic_is_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with site(tmp_path) as node, running(node) as shim:
            await shim.until("published", devices=1)
            with nic("nic1"):
                await shim.until("published", devices=2)
                assert await offered(node) == {"nic0", "nic1"}
            await shim.until("published", devices=1)
            assert await offered(node) == {"nic0"}

    with nic("nic0"):
        finish(scenario())


def test_nic_with_the_node_address_is_not_published(tmp_path: Path) -> None:
    addresses = [{"type": "InternalIP", "address": "192.0.2.77"}]

    async def scenario() -> None:
        async with site(tmp_path) as node:
            node.server.alter(
                "nodes", NODE_1, lambda entry: entry.update(status={"addresses": addresses})
            )
            async with running(node, "--exclude", "nic0") as shim:
                await shim.until("devices excluded", reason="dropped by --exclude nic0", virtual=1)
            async with running(node) as shim:
                await shim.until("published", devices=1)
                assert await offered(node) == {"nic0"}

    with nic("nic0"), nic("nic1"):
        subprocess.run(("ip", "addr", "add", "192.0.2.77/24", "dev", "nic1"), check=True)
        finish(scenario())


async def until_healthy(http: AsyncClient, address: str) -> None:
    """Query the health until it is good: on a busy machine it may not answer in time."""
    while (await http.get(f"http://{address}/healthz")).text != "ok\n":
        pass


def test_health_and_metrics_are_served(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with site(tmp_path) as node, running(node) as shim, AsyncClient() as http:
            address = (await shim.until("metrics and health served"))["address"]
            await shim.until("published", devices=1)
            unready = await http.get(f"http://{address}/readyz")
            assert (unready.status_code, "not registered" in unready.text) == (503, True)
            await node.kubelet.look()
            await shim.until("registered")
            claim = await allocated(node, "nics", "nic0")
            await node.kubelet.prepare(claim)

            ready = await http.get(f"http://{address}/readyz")

            assert ready.text == "ok\n"
            await until_healthy(http, address)
            lines: list[str] = []
            while 'dra_shim_claims_total{result="prepared"} 1' not in lines:  # after the answer
                lines = (await http.get(f"http://{address}/metrics")).text.splitlines()
            assert 'dranet_driver_published_devices_total{feature="total"} 1' in lines
            assert "dra_shim_registered 1" in lines
            assert 'dra_shim_devices{health="healthy"} 1' in lines
            assert "dra_shim_plugin_alive 0" in lines

    with nic("nic0"):
        finish(scenario())


def test_second_instance_waits_and_takes_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with site(tmp_path) as node, running(node) as first:
            await first.until("registered" if await registered(node) else "serving")
            async with running(node) as second:
                waiting = await second.until(
                    "another instance runs on this node, waiting for it to end"
                )
                assert waiting["who"] == f"pid {first.process.pid}"
                assert await first.stop() == 0
                await second.until("serving")

    finish(scenario())


async def registered(node: Site) -> bool:
    """Whether a driver is registered with the kubelet."""
    await node.kubelet.look()
    return bool(node.kubelet.plugins)


def test_claims_of_a_previous_driver_are_recorded_before_publication(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with site(tmp_path) as node:
            await node.api.create(SLICE, SLICE_OF_BEFORE)
            claim = await allocated(node, "nics", "pci-0000-8a-00-0")
            async with running(node) as shim:
                await shim.until("claims migrated", claims=1)
                assert recorded(node, claim)
                await shim.until("published", devices=2)
                assert await offered(node) == {"nic0", "pci-0000-8a-00-0"}
                assert len((await node.api.list(SLICE)).items) == 1

    with nic("nic0"):
        finish(scenario())


def test_pod_of_a_previous_driver_that_ends_during_the_list_leaves_no_record(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with site(tmp_path) as node:
            claim = await allocated(node, "nics", "pci-0000-8a-00-0")
            go_on = node.server.hold(lists_claims)
            async with running(node) as shim:
                await node.server.until(lambda: any(map(lists_claims, node.server.requests)))
                while not await registered(node):  # noqa: ASYNC110 (a directory)
                    await asyncio.sleep(0.05)
                await node.kubelet.unprepare(claim)
                go_on.set()
                await shim.until("published", devices=1)
                assert not recorded(node, claim)

    with nic("nic0"):
        finish(scenario())


def test_misspelt_attribute_in_a_flag_is_logged(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with site(tmp_path) as node:
            flags = ("--filter", 'attributes["dra.net/ifname"].StringValue == "nic0"')
            async with running(node, *flags) as shim:
                line = await shim.until("unknown attribute in a flag", flag="--filter")
                assert 'did you mean "ifName"?' in line["reason"]

    finish(scenario())


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (("--kubeconfig", "/nonexistent"), "--kubeconfig /nonexistent"),
        (("--filter", "attributes["), "--filter"),
        (("--azure-size", "Standard_Nothing"), "--azure-size"),
    ],
)
def test_invalid_setting_ends_the_process_with_a_reason(
    tmp_path: Path, flags: tuple[str, ...], text: str
) -> None:
    async def scenario() -> None:
        async with site(tmp_path) as node:
            process = await asyncio.create_subprocess_exec(
                *node.command(*flags), env=os.environ | {"PYTHONPATH": str(ROOT)},
                stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            _, output = await process.communicate()
            assert process.returncode == 1, output.decode()
            assert output.decode().splitlines()[-1].startswith("dra-shim: ")
            assert text in output.decode()

    finish(scenario())
