"""`dra-shim run` with a webhook: attributes in slices, profiles, release after a crash."""

from pathlib import Path
from typing import Any

from dra_shim.kubeapi import SLICE
from dranet_nri.config import network_config_to_object
from dranet_nri.model import ObjectRef
from dranet_nri.state.reader import AllocationReader
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.cluster import config
from tests.fakes.provider_server import Reply, Script, served
from tests.system.kernel.test_shim_daemon import Site, allocated, nic, running, site

GIVEN = {"interface": {"addresses": ["10.0.0.7/24"]}}


def webhook() -> Script:
    """Return a webhook that provides everything."""
    return Script(
        {
            "GET /health": Reply({"cloudProvider": True, "profileProvider": True}),
            "POST /GetDeviceAttributes": Reply({"x.io/rail": {"string": "r1"}}),
            "POST /GetDeviceConfig": Reply({"interface": {"mtu": 1400}}),
            "POST /GetProfileConfig": Reply(GIVEN),
            "POST /ReleaseProfileConfig": Reply("", 503),
        }
    )


async def attributes(node: Site, name: str) -> dict[str, Any]:
    """Return the published attributes of a device."""
    (document,) = (await node.api.list(SLICE)).items
    spec: Any = document["spec"]
    return {
        attribute: value
        for device in spec["devices"]
        if device["name"] == name
        for attribute, value in device["attributes"].items()
    }


async def with_profile(node: Site) -> ObjectRef:
    """Add a claim of nic0 with a profile."""
    claim = await allocated(node, "nics", "nic0")

    def configure(entry: dict[str, Any]) -> None:
        entry["status"]["allocation"]["devices"]["config"] = [config({"profile": "fast"})]

    node.server.alter("resourceclaims", "nics", configure, "ai")
    return claim


def parameters(node: Site, claim: ObjectRef) -> list[dict[str, object]]:
    """Return the recorded parameters of each device."""
    with AllocationReader(node.state.allocations, owner=None) as records:
        record = records.get(claim.uid)
    return [network_config_to_object(device.config) for device in record.devices] if record else []


def test_webhook_provides_attributes_and_profiles_and_is_notified_after_a_crash(
    tmp_path: Path,
) -> None:
    async def scenario(script: Script, url: str) -> None:
        flags = ("--webhook-url", url, "--profile-provider=webhook")
        async with site(tmp_path) as node:
            async with running(node, *flags) as shim:
                await shim.until("published", devices=1)
                assert (await attributes(node, "nic0"))["x.io/rail"] == {"string": "r1"}
                await node.kubelet.look()
                claim = await with_profile(node)
                await node.kubelet.prepare(claim)
                interface = GIVEN["interface"] | {"mtu": 1400}
                assert parameters(node, claim) == [{"profile": "fast", "interface": interface}]
                (requested,) = script.bodies("/GetProfileConfig")
                assert requested["claim_uid"] == requested["claim"]["metadata"]["uid"] == claim.uid

                await node.kubelet.unprepare(claim)
                await shim.until("profiles not released", claim_uid=claim.uid)
                shim.process.kill()
                await shim.process.wait()

            script.replies["POST /ReleaseProfileConfig"] = Reply("")
            async with running(node, *flags) as shim:
                await shim.until("profiles released", claim=str(claim))
            assert list(node.state.profiles.iterdir()) == []
            released = script.bodies("/ReleaseProfileConfig")
            assert {body["claim_uid"] for body in released} == {claim.uid}
            assert released[-1]["config"]["interface"] == interface

    script = webhook()
    with nic("nic0"), served(script, tmp_path / "webhook.sock") as url:
        finish(scenario(script, url))


def test_claim_is_prepared_again_while_the_webhook_is_down(tmp_path: Path) -> None:
    async def scenario(node: Site, script: Script, url: str) -> None:
        async with running(node, "--webhook-url", url) as shim:
            await shim.until("published", devices=1)
            await node.kubelet.look()
            claim = await with_profile(node)
            first = await node.kubelet.prepare(claim)
            script.replies.clear()
            assert await node.kubelet.prepare(claim) == first
        async with running(node, "--webhook-url", f"{url}.none") as shim:
            await shim.until("published", devices=1)
            await node.kubelet.look()
            assert await node.kubelet.prepare(claim) == first

    async def start(script: Script, url: str) -> None:
        async with site(tmp_path) as node:
            await scenario(node, script, url)

    script = webhook()
    with nic("nic0"), served(script, tmp_path / "webhook.sock") as url:
        finish(start(script, url))
