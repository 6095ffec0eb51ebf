"""The document that brings a claim's status up to date, and when there is none to apply."""

from dataclasses import replace
from typing import Any

import pytest

from dra_shim.kubeapi import Cause, InvalidError
from dra_shim.status.apply_patch import (
    claim_document,
    is_kept,
    is_owned_by_pod,
    missing_permission,
)
from dra_shim.status.conditions import Condition, DeviceStatus, device_statuses
from dranet_nri.errors import ConfigError
from tests.dra_shim.status.records import STAMP, attached_device, attachment, given, moved, nic, one
from tests.fakes.cluster import claim_document as claim_of
from tests.fakes.cluster import result

LATER = "2026-09-22T00:00:00Z"
NODE = "node-1"
NICS = device_statuses(given(replace(one(nic()), pool="node-1")), attachment())
GPU = {"driver": "gpu.example.com", "pool": "node-1", "device": "nic-0"}


def claim(*devices: str, **status: Any) -> dict[str, Any]:
    """Return a claim that has these devices."""
    made = claim_of("fast", "claim-1", [result(device) for device in devices], [])
    made["metadata"]["generation"] = 1
    made["status"].update(status)
    return made


def applied(statuses: tuple[DeviceStatus, ...], stamp: str = STAMP) -> list[Any]:
    """Return status.devices of a claim without any, after the document was applied."""
    document: Any = claim_document(claim("nic-0"), statuses, stamp, NODE)
    return list(document["status"]["devices"])


def test_status_is_one_document() -> None:
    assert claim_document(claim("nic-0"), NICS, STAMP, NODE) == {
        "metadata": {"namespace": "ai", "name": "fast", "uid": "claim-1", "resourceVersion": "7"},
        "status": {
            "devices": [
                {
                    "driver": "dra.net",
                    "pool": "node-1",
                    "device": "nic-0",
                    "conditions": [
                        {
                            "type": "NetworkReady",
                            "status": "True",
                            "reason": "NetworkReady",
                            "message": "",
                            "lastTransitionTime": STAMP,
                            "observedGeneration": 1,
                        },
                        {
                            "type": "Ready",
                            "status": "True",
                            "reason": "NetworkDeviceReady",
                            "message": "in pod ai/train as net1",
                            "lastTransitionTime": STAMP,
                            "observedGeneration": 1,
                        },
                    ],
                    "networkData": {
                        "interfaceName": "net1",
                        "hardwareAddress": "02:00:00:00:00:05",
                        "ips": ["10.1.0.5/24"],
                    },
                }
            ]
        },
    }


def test_share_has_its_id() -> None:
    share = replace(NICS[0], share_id="5e0f")
    there = claim("nic-0")
    there["status"]["allocation"]["devices"]["results"][0]["shareID"] = "5e0f"

    document: Any = claim_document(there, (share,), STAMP, NODE)

    assert document["status"]["devices"][0]["shareID"] == "5e0f"


def test_equal_status_is_not_applied() -> None:
    there = claim("nic-0", devices=[*reversed(applied(NICS)), GPU])

    assert claim_document(there, NICS, LATER, NODE) is None


def test_status_of_other_managers_is_ignored() -> None:
    (entry,) = applied(NICS)
    bound = {"type": "example.com/bound", "status": "True"}
    there = claim("nic-0", devices=[{**entry, "conditions": [bound, *entry["conditions"]], "data": {}}])  # fmt: skip # noqa: E501

    assert claim_document(there, NICS, LATER, NODE) is None


def test_transition_time_changes_only_with_the_status() -> None:
    ready, network = NICS[0].conditions
    statuses = replace(
        NICS[0],
        conditions=(
            replace(ready, message="in pod ai/train as net2"),
            Condition("NetworkReady", true=False, reason="NetworkDeviceHung"),
        ),
    )

    document: Any = claim_document(
        claim("nic-0", devices=applied((NICS[0],))), (statuses,), LATER, NODE
    )

    (entry,) = document["status"]["devices"]
    assert network.true
    assert [
        (condition["type"], condition["lastTransitionTime"]) for condition in entry["conditions"]
    ] == [
        ("NetworkReady", LATER),
        ("Ready", STAMP),
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"networkData": {"interfaceName": "net9"}},
        {"networkData": None},
        {"conditions": []},
        {"conditions": "?"},
    ],
)
def test_changed_status_is_applied_again(change: dict[str, Any]) -> None:
    (entry,) = applied(NICS)

    document: Any = claim_document(claim("nic-0", devices=[{**entry, **change}]), NICS, STAMP, NODE)

    assert document["status"]["devices"] == [entry]


def test_only_allocated_devices_are_in_the_status() -> None:
    assert claim_document(claim("nic-1", "nic-0"), NICS, STAMP, NODE) is not None
    assert claim_document(claim("nic-1"), NICS, STAMP, NODE) is None
    assert claim_document({"metadata": claim()["metadata"]}, NICS, STAMP, NODE) is None


def test_absent_status_is_not_withdrawn() -> None:
    assert claim_document(claim("nic-0", devices=[GPU]), (), STAMP, NODE) is None


@pytest.mark.parametrize("stale", [False, True], ids=["nothing to say", "a record of before"])
def test_status_of_a_claim_on_another_node_is_kept(*, stale: bool) -> None:
    there = claim("nic-0", devices=applied(NICS))
    of_before = tuple(replace(entry, pool="node-0") for entry in NICS)

    assert claim_document(there, of_before if stale else (), LATER, "node-0") is None
    assert claim_document(there, NICS if stale else (), LATER, "node-0") is None


def test_empty_list_withdraws_the_status() -> None:
    document: Any = claim_document(claim("nic-0", devices=applied(NICS)), (), STAMP, NODE)

    assert document["status"] == {"devices": []}


def test_device_without_a_net_device_has_no_network_data() -> None:
    made = device_statuses(
        given(replace(one(nic()), pool="node-1")),
        attachment(moved(attached_device(nic(), ""), "mlx5_0")),
    )

    (entry,) = applied(made)

    assert "networkData" not in entry


def test_device_without_addresses_has_none() -> None:
    record = attachment(replace(attached_device(nic()), addresses=(), mac=""))
    made = device_statuses(given(replace(one(nic()), pool="node-1")), record)

    (entry,) = applied(made)

    assert entry["networkData"] == {"interfaceName": "net1"}


def test_claim_without_a_generation_has_no_observed_generation() -> None:
    there = claim("nic-0")
    del there["metadata"]["generation"]

    document: Any = claim_document(there, NICS, STAMP, NODE)

    assert "observedGeneration" not in document["status"]["devices"][0]["conditions"][0]


def test_document_that_is_no_claim_is_refused() -> None:
    with pytest.raises(ConfigError):
        claim_document({"status": {}}, NICS, STAMP, NODE)


def test_dropped_status_is_detected() -> None:
    document = claim_document(claim("nic-0"), NICS, STAMP, NODE)
    assert document is not None

    assert is_kept(document, claim("nic-0", devices=applied(NICS)))
    assert not is_kept(document, claim("nic-0", devices=[GPU]))
    assert is_kept({"status": {"devices": []}}, claim("nic-0"))


def test_missing_right_is_distinguished_from_an_invalid_status() -> None:
    refusal = 'changing status.devices requires resource="resourceclaims/driver", verb="[x]"'
    missing = InvalidError("s", "no", causes=[Cause("status.devices", refusal)])
    wrong = InvalidError("s", "no", causes=[Cause("status.devices[0]", "must be allocated")])

    assert missing_permission(missing).startswith(
        "grant associated-node:patch on resourceclaims/driver"
    )
    assert missing_permission(wrong) == ""


@pytest.mark.parametrize(
    "owners",
    [
        [],
        [{"kind": "Pod"}],
        [{"kind": "Pod", "controller": False}],
        [{"kind": "Job", "controller": True}],
    ],
)
def test_claim_of_a_template_is_owned_by_its_pod(owners: list[dict[str, object]]) -> None:
    document = claim("nic-0")
    document["metadata"]["ownerReferences"] = owners
    assert not is_owned_by_pod(document)

    owners.append({"kind": "Pod", "controller": True})

    assert is_owned_by_pod(document)
