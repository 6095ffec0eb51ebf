"""The kubelet's messages as values, against bytes from the kubelet's own stubs."""

from pathlib import Path

import pytest

from dra_shim._gen.dra_v1_pb2 import NodePrepareResourcesRequest, NodeUnprepareResourcesRequest
from dra_shim.kubeletplugin.messages import (
    VERSIONS,
    claims_from,
    prepare_response,
    unprepare_response,
)
from dra_shim.prepare import PreparedDevice, PrepareResult
from dranet_nri.model import ObjectRef

GOLDEN = Path(__file__).parents[2] / "golden" / "kubelet"
V1, V1BETA1 = VERSIONS
ID = "dra.net/nic=ai_nics_nic_abc"
FIRST = PreparedDevice("nic", "node-1", "pci-0000-8a-00-0", (ID,))
SHARE = "5a3c9f3e-0000-4000-8000-000000000001"
SECOND = PreparedDevice("nic", "node-1", "pci-0000-8a-00-1", (), SHARE)


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_requests_of_all_versions_are_decoded(version: str) -> None:
    prepare = NodePrepareResourcesRequest.FromString(golden(f"{version}-prepare-request"))
    unprepare = NodeUnprepareResourcesRequest.FromString(golden(f"{version}-unprepare-request"))

    claims, bad = claims_from(prepare.claims)

    assert claims[0] == ObjectRef("ai", "nics", "u1")
    assert bad == {}
    assert claims_from(unprepare.claims) == (claims[:1], {})


def test_responses_equal_the_golden_files() -> None:
    answers = {
        "u1": PrepareResult((FIRST, SECOND)),
        "u2": PrepareResult(error="device pci-0000-8b-00-0: held by claim ai/old"),
        "u3": PrepareResult(),
    }

    prepared = prepare_response(answers, V1, {}).SerializeToString(deterministic=True)
    unprepared = unprepare_response({"u1": "", "u2": "disk full"})

    assert prepared == golden("v1-prepare-response")
    assert unprepared.SerializeToString(deterministic=True) == golden("v1-unprepare-response")


def test_v1beta1_response_has_no_share_ids() -> None:
    share = PreparedDevice("nic", "node-1", "pci-0000-8a-00-0", (ID,), SHARE)

    prepared = prepare_response({"u1": PrepareResult((share,))}, V1BETA1, {})

    assert prepared.SerializeToString(deterministic=True) == golden("v1beta1-prepare-response")
    assert unprepare_response({"u1": ""}).SerializeToString() == golden(
        "v1beta1-unprepare-response"
    )


def test_invalid_claim_of_a_request_is_reported() -> None:
    message = NodePrepareResourcesRequest()
    message.claims.add(namespace="ai", name="nics", uid="u1")
    message.claims.add(namespace="A/..", name="nics", uid="u2")
    message.claims.add(namespace="ai", name="", uid="u3")
    message.claims.add(namespace="ai", name="nics", uid="")

    claims, bad = claims_from(message.claims)

    assert claims == (ObjectRef("ai", "nics", "u1"),)
    assert bad["u2"].startswith("claim A/../nics: namespace 'A/..': must be a DNS label")
    assert bad["u3"].startswith("claim ai/: name '': must be a DNS subdomain")
    assert bad[""].startswith("claim ai/nics: uid '': must be 1 to 128")
