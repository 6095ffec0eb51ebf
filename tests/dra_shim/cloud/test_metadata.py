"""Cloud detection and metadata requests, against servers on the loopback."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from dra_shim.cloud.aws import AWS
from dra_shim.cloud.coreweave import CLUSTER, CoreWeave
from dra_shim.cloud.detect import Detection, Machine
from dra_shim.cloud.directory import CloudDirectory, CloudFailed, CloudFound, CloudNotice
from dra_shim.cloud.gce import GCE
from dra_shim.cloud.metadata import CACHE_S, MAX_ANSWER, MetadataProvider
from dra_shim.cloud.names import HINTS, parse_hint
from dra_shim.cloud.provider import CloudError, ProviderDeviceId, identity_of
from dranet_nri.errors import InvalidValueError
from dranet_nri.model import Device, DeviceKey, InterfaceConfig, IpvlanConfig, NetworkConfig
from tests.fakes.provider_server import Reply, Script, served

pytestmark = pytest.mark.process

DEVICE = Device("d", DeviceKey("pci", "0000:c9:00.0", "", "0000:c9:00.0"))
CHILD = NetworkConfig(InterfaceConfig(ipvlan=IpvlanConfig()))
IDENTITY = ProviderDeviceId("d", pci="0000:c9:00.0", driver="efa")
_GCE = "/computeMetadata/v1/instance"


def gce() -> Script:
    """Return a server that answers as Google's does, only to requests with its header."""
    paths = {
        f"{_GCE}/machine-type": Reply("projects/1/machineTypes/a3"),
        f"{_GCE}/network-interfaces/?recursive=true&alt=json": Reply([]),
    }
    return Script(
        {f"GET {path}": reply for path, reply in paths.items()},
        dict.fromkeys(paths, ("Metadata-Flavor", "Google")),
    )


def aws() -> Script:
    """Return a server that answers as Amazon's does, only to requests with its own token."""
    path = "/latest/dynamic/instance-identity/document"
    return Script(
        {
            "PUT /latest/api/token": Reply("t0ken"),
            f"GET {path}": Reply({"instanceType": "trn2.48xlarge"}),
        },
        {
            "/latest/api/token": ("X-aws-ec2-metadata-token-ttl-seconds", "21600"),
            path: ("X-aws-ec2-metadata-token", "t0ken"),
        },
    )


async def no_labels() -> Mapping[str, str]:
    return {}


def machine(sysfs: Path, **servers: str) -> Machine:
    return Machine(sysfs, no_labels, servers)


def firmware(sysfs: Path, name: str, text: str) -> Path:
    dmi = sysfs / "class/dmi/id"
    dmi.mkdir(parents=True)
    (dmi / name).write_text(f"{text}\n")
    return sysfs


# --------------------------------------------------------------------------- which cloud


@pytest.mark.parametrize(
    ("file", "text", "name"),
    [
        ("product_name", "Google Compute Engine", "GCE"),
        ("sys_vendor", "Amazon EC2", "AWS"),
        ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", "AZURE"),
        ("chassis_asset_tag", "OracleCloud.com", "OKE"),
        ("sys_vendor", "Alibaba Cloud", "ALIBABA"),
    ],
)
def test_cloud_is_detected_from_the_firmware(
    tmp_path: Path, file: str, text: str, name: str
) -> None:
    provider = asyncio.run(Detection(machine(firmware(tmp_path, file, text))).provider())

    assert provider is not None
    assert provider.name == name


def test_machine_outside_a_cloud_sends_no_request(tmp_path: Path) -> None:
    script = Script()
    with served(script) as url:
        servers = dict.fromkeys(HINTS, url)
        found = asyncio.run(Detection(machine(tmp_path, **servers)).provider())

    assert found is None
    assert script.received == []


def test_coreweave_is_detected_by_a_label(tmp_path: Path) -> None:
    async def labels() -> Mapping[str, str]:
        return {CLUSTER: "c1"}

    found = asyncio.run(Detection(Machine(tmp_path, labels)).provider())

    assert isinstance(found, CoreWeave)


@pytest.mark.parametrize(("hint", "name"), [("gce", "GCE"), ("cks", "CKS"), ("None", "")])
def test_hint_overrides_detection(tmp_path: Path, hint: str, name: str) -> None:
    sysfs = firmware(tmp_path, "sys_vendor", "Amazon EC2")

    found = asyncio.run(Detection(machine(sysfs), parse_hint(hint)).provider())

    assert (found.name if found else "") == name


def test_unknown_hint_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="'GKE': must be one of GCE, AWS, AZURE"):
        parse_hint("GKE")


# --------------------------------------------------------------------------- a server


def described(provider: MetadataProvider) -> dict[str, object]:
    async def read() -> dict[str, object]:
        found = await provider.describe([IDENTITY])
        return dict(found.facts[IDENTITY].attributes)

    return asyncio.run(read())


def test_gce_request_has_the_metadata_header() -> None:
    with served(gce()) as url:
        assert described(MetadataProvider(GCE, url)) == {"gce.dra.net/machineType": "a3"}


def test_aws_request_has_a_token() -> None:
    with served(aws()) as url:
        found = described(MetadataProvider(AWS, url))

    assert found["resource.aws.com/devicegroup1_id"] == "0000:c9:00.0"


def test_metadata_is_requested_again_after_the_cache_expires() -> None:
    now = [0.0]
    script = gce()
    with served(script) as url:
        provider = MetadataProvider(GCE, url, lambda: now[0])
        described(provider)
        described(provider)
        assert script.paths().count(f"{_GCE}/machine-type") == 1
        now[0] = CACHE_S
        described(provider)

    assert script.paths().count(f"{_GCE}/machine-type") == 2


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply("no", 500), "answered 500"),
        (Reply("", 301, f"{_GCE}/network-interfaces/?recursive=true&alt=json"), "answered 301"),
        (Reply("x" * (MAX_ANSWER + 1)), "answered more than"),
    ],
)
def test_invalid_answer_is_an_error_with_the_path(reply: Reply, reason: str) -> None:
    script = gce()
    script.replies[f"GET {_GCE}/machine-type"] = reply
    with served(script) as url, pytest.raises(CloudError) as raised:
        described(MetadataProvider(GCE, url))

    assert f"GCE metadata {_GCE}/machine-type: {reason}" in str(raised.value)


def test_unreachable_metadata_server_is_an_error() -> None:
    with served(gce()) as url:
        pass

    with pytest.raises(CloudError, match="GCE metadata"):
        described(MetadataProvider(GCE, url))


def test_answer_without_an_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dra_shim.cloud.metadata.ANSWER_S", 0.2)
    script = gce()
    script.dripping.set()
    with served(script) as url, pytest.raises(CloudError, match="TimeoutError"):
        described(MetadataProvider(GCE, url))


# --------------------------------------------------------------------------- the directory


def test_devices_have_cloud_facts_before_their_first_publication() -> None:
    notices: list[CloudNotice] = []
    changes: list[None] = []

    async def scenario(url: str) -> Device:
        async def choose() -> MetadataProvider:
            return MetadataProvider(GCE, url)

        directory = CloudDirectory(choose, lambda: changes.append(None), notices.append)
        work = asyncio.create_task(directory.run())
        assert await directory.update_devices([DEVICE])
        assert not await directory.update_devices([DEVICE])
        work.cancel()
        return directory.enriched(DEVICE)

    with served(gce()) as url:
        device = asyncio.run(scenario(url))

    assert device.attribute("gce.dra.net/machineType") == "a3"
    assert notices == [CloudFound("GCE")]
    assert changes


def test_update_does_not_wait_without_a_provider() -> None:
    async def scenario() -> bool:
        async def choose() -> None:
            return None

        directory = CloudDirectory(choose, lambda: None, lambda _: None)
        work = asyncio.create_task(directory.run())
        update_devices = await directory.update_devices([DEVICE])
        work.cancel()
        assert directory.enriched(DEVICE) is DEVICE
        assert directory.parameters(DEVICE, CHILD) == ("", {})
        return update_devices

    assert not asyncio.run(asyncio.wait_for(scenario(), 4))


def test_only_an_ipvlan_child_without_addresses_waits_for_the_first_facts() -> None:
    async def scenario(url: str) -> None:
        async def choose() -> MetadataProvider:
            return MetadataProvider(GCE, url)

        found = asyncio.Event()
        directory = CloudDirectory(choose, lambda: None, lambda _: found.set())
        update = asyncio.create_task(directory.update_devices([DEVICE]))
        work = asyncio.create_task(directory.run())
        await found.wait()
        assert directory.parameters(DEVICE, NetworkConfig()) == ("GCE", {})
        with pytest.raises(CloudError, match=r"device d: .* no facts about it yet"):
            directory.parameters(DEVICE, CHILD)
        await update
        work.cancel()
        assert directory.parameters(DEVICE, CHILD) == ("GCE", {})

    with served(gce()) as url:
        asyncio.run(scenario(url))


def test_last_facts_are_kept_while_the_server_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    notices: list[CloudNotice] = []
    monkeypatch.setattr("dra_shim.cloud.directory.REFRESH_S", 0.01)
    failed = asyncio.Event()

    def on_notice(notice: CloudNotice) -> None:
        notices.append(notice)
        if isinstance(notice, CloudFailed):
            failed.set()

    async def scenario(url: str, script: Script) -> Device:
        ticks = iter(range(0, 10**9, int(CACHE_S)))

        async def choose() -> MetadataProvider:
            return MetadataProvider(GCE, url, lambda: next(ticks))

        directory = CloudDirectory(choose, lambda: None, on_notice)
        work = asyncio.create_task(directory.run())
        await directory.update_devices([DEVICE])
        script.replies.clear()
        await failed.wait()
        work.cancel()
        return directory.enriched(DEVICE)

    script = gce()
    with served(script) as url:
        device = asyncio.run(scenario(url, script))

    assert device.attribute("gce.dra.net/machineType") == "a3"
    assert "answered 404" in str(next(n.error for n in notices if isinstance(n, CloudFailed)))
    assert identity_of(DEVICE).name == "d"
