"""The webhook client against correct, slow, unreachable and faulty servers."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from dra_shim.cloud.names import parse_url
from dra_shim.cloud.provider import CloudError, DeviceFacts, ProviderDeviceId
from dra_shim.cloud.webhook import (
    MAX_ANSWER,
    Capabilities,
    DeniedError,
    Webhook,
    WebhookProvider,
)
from dranet_nri.errors import InvalidValueError
from dranet_nri.model import ObjectRef, Version
from tests.fakes.provider_server import Reply, Script, served

pytestmark = pytest.mark.process

T = TypeVar("T")
NIC = ProviderDeviceId("pci-0000-00-05-0", "eth1", "02:00:00:00:00:01", "0000:00:05.0")
NAMED = {"mac_address": NIC.mac, "pci_address": NIC.pci, "name": NIC.name}
CLAIM = ObjectRef("ai", "nics", "u1")
HEALTHY = {"GET /health": Reply({"cloudProvider": True, "profileProvider": True})}
LONGEST_VERSION = f"1.2.3-{'x' * 58}"
ATTRIBUTES = {
    "x.io/rail": {"string": "r1"},
    "x.io/slot": {"int": 3},
    "x.io/fast": {"bool": True},
    "x.io/fw": {"version": LONGEST_VERSION},
}


def call(url: str, work: Callable[[Webhook], Awaitable[T]], answer_s: float = 10.0) -> T:
    async def run() -> T:
        webhook = Webhook(url, answer_s=answer_s)
        try:
            return await work(webhook)
        finally:
            await webhook.close()

    return asyncio.run(run())


# --------------------------------------------------------------------------- right


@pytest.mark.parametrize("unix", [False, True], ids=["http", "unix"])
def test_webhook_gives_attributes_and_parameters_of_a_device(tmp_path: Path, unix: bool) -> None:  # noqa: FBT001
    script = Script(
        {
            "POST /GetDeviceAttributes": Reply(ATTRIBUTES),
            "POST /GetDeviceConfig": Reply({"interface": {"mtu": 4000}}),
        }
    )
    with served(script, tmp_path / "s" if unix else None) as url:
        facts = call(url, lambda webhook: webhook.facts(NIC))

    assert facts == DeviceFacts(
        (
            ("x.io/rail", "r1"),
            ("x.io/slot", 3),
            ("x.io/fast", True),
            ("x.io/fw", Version(LONGEST_VERSION)),
        ),
        {"interface": {"mtu": 4000}},
    )
    assert script.bodies("/GetDeviceAttributes") == [NAMED | {"name": "eth1"}]
    assert script.bodies("/GetDeviceConfig") == [NAMED]


def test_profile_request_has_the_fields_of_both_dranet_versions() -> None:
    document = {"metadata": {"name": "nics", "uid": "u1"}}
    config = {"profile": "fast", "interface": {"mtu": 1500}}
    script = Script(
        {"POST /GetProfileConfig": Reply({"interface": {"addresses": ["10.0.0.1/24"]}})}
    )
    with served(script) as url:
        given = call(url, lambda webhook: webhook.profile(NIC, document, "u1", config))

    assert given == {"interface": {"addresses": ["10.0.0.1/24"]}}
    assert script.bodies("/GetProfileConfig") == [
        {"device": NAMED, "claim": document, "claim_uid": "u1", "config": config}
    ]


@pytest.mark.parametrize("answer", [{"path": "/opt/hook", "data": {"rail": 1}}, None])
def test_runtime_hook_request_is_that_of_the_profile(answer: dict[str, object] | None) -> None:
    script = Script({"POST /GetRuntimeHook": Reply(json.dumps(answer))})
    with served(script) as url:
        hook = call(url, lambda webhook: webhook.runtime_hook(NIC, {"kind": "x"}, "u1", {"a": 1}))

    assert hook == (answer or {})
    assert script.bodies("/GetRuntimeHook") == [
        {"device": NAMED, "claim": {"kind": "x"}, "claim_uid": "u1", "config": {"a": 1}}
    ]


@pytest.mark.parametrize("body", ["", "ok", "null"])
def test_release_ignores_the_body_of_the_answer(body: str) -> None:
    script = Script({"POST /ReleaseProfileConfig": Reply(body)})
    with served(script) as url:
        call(url, lambda webhook: webhook.release(NIC, CLAIM, {"profile": "fast"}))

    assert script.bodies("/ReleaseProfileConfig") == [
        {"device": NAMED, "claim_uid": "u1", "config": {"profile": "fast"}}
    ]


def test_capability_that_is_not_reported_is_false() -> None:
    with served(Script({"GET /health": Reply({"cloudProvider": True})})) as url:
        assert call(url, Webhook.capabilities) == Capabilities(cloud=True, profiles=False)


def test_webhook_reports_that_profiles_have_runtime_hooks() -> None:
    health = {"profileProvider": True, "runtimeHook": True}
    with served(Script({"GET /health": Reply(health)})) as url:
        assert call(url, Webhook.capabilities) == Capabilities(
            cloud=False, profiles=True, hooks=True
        )


# --------------------------------------------------------------------------- slow, dead, wrong


def test_request_to_a_slow_server_ends_at_the_deadline() -> None:
    script = Script(dict(HEALTHY))
    script.stalled.set()
    with served(script) as url, pytest.raises(CloudError, match="/health: no answer in time"):
        call(url, Webhook.capabilities, answer_s=0.2)

    assert script.paths() == ["/health"]


def test_endless_answer_ends_at_the_deadline() -> None:
    script = Script(dict(HEALTHY))
    script.dripping.set()
    with served(script) as url, pytest.raises(CloudError, match="/health: no answer in time"):
        call(url, Webhook.capabilities, answer_s=0.3)


def test_unreachable_webhook_is_an_error() -> None:
    with served(Script()) as url:
        pass

    with pytest.raises(CloudError, match=f"webhook {url} /health"):
        call(url, Webhook.capabilities)


def test_missing_webhook_socket_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CloudError, match="/health"):
        call(f"unix://{tmp_path}/none", Webhook.capabilities)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply("<html>"), "no valid JSON"),
        (Reply("[" * 200_000), "no valid JSON"),
        (Reply([1]), "must be a JSON object"),
        (Reply("pool\n is full", 503), "answered 503: pool is full"),
        (Reply("x" * (MAX_ANSWER + 1)), "answered more than"),
    ],
)
def test_invalid_answer_is_a_temporary_error(reply: Reply, reason: str) -> None:
    script = Script({"POST /GetProfileConfig": reply})
    with served(script) as url, pytest.raises(CloudError, match=reason) as raised:
        call(url, lambda webhook: webhook.profile(NIC, {}, "u1", {}))

    assert not isinstance(raised.value, DeniedError)


def test_denial_has_the_message_of_the_server() -> None:
    script = Script({"POST /GetProfileConfig": Reply("no such profile", 404)})
    with served(script) as url, pytest.raises(DeniedError, match="answered 404: no such profile"):
        call(url, lambda webhook: webhook.profile(NIC, {}, "u1", {}))


@pytest.mark.parametrize(
    "attribute",
    [
        ("rail", {"string": "r"}),
        ("x.io/rail", "r"),
        ("x.io/rail", {"int": True}),
        ("x.io/rail", {"int": 2**63}),
        ("x.io/rail", {"string": 3}),
        ("x.io/fw", {"version": "22.39"}),
        ("x.io/fw", {"version": f"1.2.3-{'x' * 59}"}),
    ],
)
def test_invalid_attribute_is_named_in_the_error(attribute: tuple[str, object]) -> None:
    script = Script(
        {"POST /GetDeviceAttributes": Reply(dict([attribute])), "POST /GetDeviceConfig": Reply({})}
    )
    with served(script) as url, pytest.raises(CloudError, match=f"attribute '?{attribute[0]}"):
        call(url, lambda webhook: webhook.facts(NIC))


# --------------------------------------------------------------------------- as a provider


def test_failed_device_does_not_hide_other_devices() -> None:
    other = ProviderDeviceId("pci-0000-00-06-0", "eth2")
    script = Script(
        HEALTHY
        | {"POST /GetDeviceAttributes": Reply(ATTRIBUTES), "POST /GetDeviceConfig": Reply({})}
    )

    async def scenario(webhook: Webhook) -> None:
        provider = WebhookProvider(webhook)
        assert (await provider.describe([NIC])).failure == ""
        script.replies["POST /GetDeviceAttributes"] = Reply("oops", 500)
        found = await provider.describe([NIC, other])
        assert list(found.facts) == [NIC]
        assert "device pci-0000-00-06-0: webhook" in found.failure

    with served(script) as url:
        call(url, scenario)

    assert script.paths().count("/GetDeviceAttributes") == 2


def test_webhook_for_profiles_only_receives_no_device_requests() -> None:
    script = Script({"GET /health": Reply({"profileProvider": True})})
    with served(script) as url:
        found = call(url, lambda webhook: WebhookProvider(webhook).describe([NIC]))

    assert found.facts == {NIC: DeviceFacts()}
    assert script.paths() == ["/health"]


@pytest.mark.parametrize("text", ["", "http://127.0.0.1:8080", "https://h/x", "unix:///run/w.sock"])
def test_webhook_url_is_accepted(text: str) -> None:
    assert parse_url(text) == text


@pytest.mark.parametrize("text", ["127.0.0.1:8080", "ftp://h", "unix://", "http://", "http://[x"])
def test_invalid_webhook_url_is_refused(text: str) -> None:
    with pytest.raises(InvalidValueError):
        parse_url(text)
