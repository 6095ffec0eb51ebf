"""Claims, Pods and node addresses from the API server, and its errors as Prepare reports them."""

from typing import Any

import pytest

from dra_shim.cloud.provider import CloudError
from dra_shim.daemon.sources import ServerSource
from dra_shim.discovery import AddressSource
from dra_shim.kubeapi import CLAIM, NODE, POD
from dra_shim.prepare import ApiUnavailableError, ClaimSource, NotYetError, PodSource
from dranet_nri.errors import RefusedError
from dranet_nri.model import ObjectRef
from tests.dra_shim.kubeapi.client_bench import talking
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.exchange import NoResponse, Response

pytestmark = pytest.mark.process


REF = ObjectRef("ai", "fast", "u1")


def test_claims_and_pods_are_read_from_the_server_on_each_call() -> None:
    async def scenario() -> None:
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

    finish(scenario())


def test_missing_object_is_none() -> None:
    async def scenario() -> None:
        async with talking() as (_, api):
            assert await ServerSource(api).claim(REF) is None
            assert await ServerSource(api).pod(REF) is None

    finish(scenario())


def test_retry_after_of_the_server_is_used() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            server.fail(
                Response(429, b"", {"Retry-After": "4"}), lambda request: "pods" in request.path
            )
            with pytest.raises(ApiUnavailableError, match="get Pod ai/fast: ") as caught:
                await ServerSource(api).pod(REF)
            assert caught.value.after_s == 4.0

    finish(scenario())


@pytest.mark.parametrize("status", [401, 403])
def test_forbidden_request_is_a_retryable_error_with_the_reason(status: int) -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            refusal = {"code": status, "message": "not yours"}
            server.fail(Response(status, refusal), lambda request: "pods" in request.path)
            with pytest.raises(NotYetError, match="get Pod ai/fast: not yours; "):
                await ServerSource(api).pod(REF)

    finish(scenario())


def test_server_without_resource_claims_is_reported_with_the_feature_gate() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            server.versions = ()
            with pytest.raises(NotYetError, match="enable DynamicResourceAllocation"):
                await ServerSource(api).claim(REF)

    finish(scenario())


def test_invalid_request_is_refused_at_once() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            server.fail(
                Response(400, {"code": 400, "message": "no"}),
                lambda request: "pods" in request.path,
            )
            with pytest.raises(RefusedError, match="get Pod ai/fast: no"):
                await ServerSource(api).pod(REF)

    finish(scenario())


# --------------------------------------------------------------------------- the Node's addresses


def entry(kind: str, address: Any) -> dict[str, Any]:
    return {"type": kind, "address": address}


@pytest.mark.parametrize(
    ("status", "expected"),
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
def test_node_addresses_are_the_first_ip_address_of_each_kind_and_family(
    status: Any, expected: set[str]
) -> None:
    async def scenario() -> None:
        async with talking() as (_, api):
            await api.create(NODE, {"metadata": {"name": "node-1"}, "status": status})
            source: AddressSource = ServerSource(api)
            assert await source.addresses("node-1") == expected

    finish(scenario())


def test_missing_node_is_a_retryable_error() -> None:
    async def scenario() -> None:
        async with talking() as (_, api):
            with pytest.raises(
                ApiUnavailableError, match=r"Node node-9: .* \(--hostname-override\)"
            ):
                await ServerSource(api).addresses("node-9")

    finish(scenario())


def test_request_for_node_addresses_has_a_timeout() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            server.fail(NoResponse(), lambda request: "nodes" in request.path)
            with pytest.raises(ApiUnavailableError, match=r"get Node node-1: no answer in 0\.05 s"):
                await ServerSource(api, addresses_s=0.05).addresses("node-1")

    finish(scenario())


# --------------------------------------------------------------------------- the Node's labels


def test_labels_are_those_of_the_node() -> None:
    async def scenario() -> None:
        async with talking() as (_, api):
            metadata = {"name": "node-1", "labels": {"zone": "a"}}
            await api.create(NODE, {"metadata": metadata})
            assert await ServerSource(api).labels("node-1") == {"zone": "a"}

    finish(scenario())


@pytest.mark.parametrize("status", [400, 401, 403, 429, 503, 0])
def test_labels_that_cannot_be_read_are_an_error_of_the_cloud(status: int) -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            refusal = {"code": status, "message": "not now"}
            answer = Response(status, refusal) if status else NoResponse()
            server.fail(answer, lambda request: "nodes" in request.path)
            with pytest.raises(CloudError, match="get Node node-1: "):
                await ServerSource(api, addresses_s=0.5).labels("node-1")

    finish(scenario())


def test_labels_of_a_missing_node_are_an_error_of_the_cloud() -> None:
    async def scenario() -> None:
        async with talking() as (_, api):
            with pytest.raises(CloudError, match="Node node-9: does not exist"):
                await ServerSource(api).labels("node-9")

    finish(scenario())
