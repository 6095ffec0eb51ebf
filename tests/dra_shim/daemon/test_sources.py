"""What the server says comes from it each time, and its trouble in Prepare's words."""

from typing import Any

import pytest

from dra_shim.daemon.sources import ServerSource
from dra_shim.discovery import AddressSource
from dra_shim.kubeapi import CLAIM, NODE, POD
from dra_shim.prepare import ApiUnavailableError, ClaimSource, NotYetError, PodSource
from dranet_nri.errors import RefusedError
from dranet_nri.model import ObjectRef
from tests.dra_shim.kubeapi.client_bench import talking
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.exchange import Silence, Told

pytestmark = pytest.mark.process


REF = ObjectRef("ai", "fast", "u1")


def test_claims_and_pods_are_read_as_they_are_now() -> None:
    async def scene() -> None:
        async with talking() as (server, api):
            source = ServerSource(api)
            claims: ClaimSource = source
            pods: PodSource = source
            await api.create(CLAIM, {"metadata": {"name": "fast"}, "ofANewerServer": 1}, "ai")
            await api.create(POD, {"metadata": {"name": "fast"}, "spec": {"x": 1}}, "ai")

            claim, pod = await claims.claim(REF), await pods.pod(REF)
            server.alter("pods", "fast", lambda document: document["spec"].update(x=2), "ai")
            changed = await pods.pod(REF)

            assert claim is not None
            assert (claim["kind"], claim["ofANewerServer"]) == ("ResourceClaim", 1)
            assert pod is not None
            assert changed is not None
            assert (pod["spec"], changed["spec"]) == ({"x": 1}, {"x": 2})

    finish(scene())


def test_what_is_not_there_is_none() -> None:
    async def scene() -> None:
        async with talking() as (_, api):
            assert await ServerSource(api).claim(REF) is None
            assert await ServerSource(api).pod(REF) is None

    finish(scene())


def test_a_server_that_cannot_answer_is_asked_again_when_it_said() -> None:
    async def scene() -> None:
        async with talking() as (server, api):
            server.fail(
                Told(429, b"", {"Retry-After": "4"}), lambda request: "pods" in request.path
            )
            with pytest.raises(ApiUnavailableError, match="get Pod ai/fast: ") as caught:
                await ServerSource(api).pod(REF)
            assert caught.value.after_s == 4.0

    finish(scene())


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_will_not_answer_yet_says_why(status: int) -> None:
    async def scene() -> None:
        async with talking() as (server, api):
            refusal = {"code": status, "message": "not yours"}
            server.fail(Told(status, refusal), lambda request: "pods" in request.path)
            with pytest.raises(NotYetError, match="get Pod ai/fast: not yours; "):
                await ServerSource(api).pod(REF)

    finish(scene())


def test_a_server_without_claims_says_what_it_lacks() -> None:
    async def scene() -> None:
        async with talking() as (server, api):
            server.versions = ()
            with pytest.raises(NotYetError, match="enable DynamicResourceAllocation"):
                await ServerSource(api).claim(REF)

    finish(scene())


def test_what_a_server_does_not_take_at_all_is_said_at_once() -> None:
    async def scene() -> None:
        async with talking() as (server, api):
            server.fail(
                Told(400, {"code": 400, "message": "no"}), lambda request: "pods" in request.path
            )
            with pytest.raises(RefusedError, match="get Pod ai/fast: no"):
                await ServerSource(api).pod(REF)

    finish(scene())


# --------------------------------------------------------------------------- the Node's addresses


def entry(kind: str, address: Any) -> dict[str, Any]:
    return {"type": kind, "address": address}


@pytest.mark.parametrize(
    ("status", "known"),
    [
        (
            {
                "addresses": [
                    entry("InternalIP", "10.0.0.5"),
                    entry("InternalIP", "FD00:0::5"),
                    entry("ExternalIP", "203.0.113.7"),
                    entry("Hostname", "node-1"),
                ]
            },
            {"10.0.0.5", "fd00::5", "203.0.113.7"},
        ),
        (
            {
                "addresses": [
                    entry("Hostname", "node-1"),
                    *(entry("InternalIP", f"192.168.{nic}.5") for nic in range(9)),
                    *(entry("ExternalIP", f"203.0.113.{nic}") for nic in range(9)),
                ]
            },
            {"192.168.0.5", "203.0.113.0"},
        ),
        ({"addresses": [entry("InternalIP", 5), "10.0.0.5", {"type": "InternalIP"}]}, set()),
        ({"addresses": {}}, set()),
        ({}, set()),
        (None, set()),
    ],
    ids=["of both families", "of every NIC", "no text", "no list", "none", "no status"],
)
def test_a_node_is_reached_by_the_first_ip_address_of_each_kind(
    status: Any, known: set[str]
) -> None:
    async def scene() -> None:
        async with talking() as (_, api):
            await api.create(NODE, {"metadata": {"name": "node-1"}, "status": status})
            source: AddressSource = ServerSource(api)
            assert await source.addresses("node-1") == known

    finish(scene())


def test_a_node_that_does_not_exist_may_come() -> None:
    async def scene() -> None:
        async with talking() as (_, api):
            with pytest.raises(
                ApiUnavailableError, match=r"Node node-9: .* \(--hostname-override\)"
            ):
                await ServerSource(api).addresses("node-9")

    finish(scene())


def test_a_silent_server_keeps_nobody_waiting_for_addresses() -> None:
    async def scene() -> None:
        async with talking() as (server, api):
            server.fail(Silence(), lambda request: "nodes" in request.path)
            with pytest.raises(ApiUnavailableError, match=r"get Node node-1: no answer in 0\.05 s"):
                await ServerSource(api, addresses_s=0.05).addresses("node-1")

    finish(scene())
