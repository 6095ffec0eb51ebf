"""Laws of what is told, for whatever records there may be."""

from dataclasses import replace
from ipaddress import ip_interface
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dra_shim.status.apply_patch import claim_document
from dra_shim.status.conditions import MAX_IPS, MAX_MESSAGE, TYPES, device_statuses
from dra_shim.status.events import MAX_NAME, new_event
from dra_shim.status.reasons import MAX_MESSAGE as MAX_EVENT
from dra_shim.status.summary import SLOW_S, ClaimRecords, status_update
from dra_shim.status.text import reason_of
from dranet_nri.model import Allocation, Attachment
from tests.dra_shim.status.records import NOW, STAMP
from tests.dranet_nri.state.strategies import ALLOCATIONS, ATTACHMENTS
from tests.fakes.cluster import claim_document as claim_of


def paired(allocation: Allocation, attachment: Attachment) -> Attachment:
    """Return the attachment as one of the same claim, pod and devices, with much to be told."""
    devices = tuple(
        replace(
            device,
            request=given_to.request,
            device=given_to.device,
            addresses=(*UNUSUAL, *device.addresses),
            warnings=(*device.warnings, "ä\n" * 3000),
        )
        for device, given_to in zip(attachment.devices, allocation.devices, strict=False)
    )
    return replace(attachment, claim=allocation.claim, pod=allocation.pod, devices=devices)


def observed_too(allocation: Allocation) -> Allocation:
    """Return the allocation with each device given to somebody who looks on as well."""
    looks_on = (replace(device, admin_access=True) for device in allocation.devices)
    return replace(allocation, devices=(*looks_on, *allocation.devices))


UNUSUAL = ("2001:DB8:0::5/64", "2001:db8::5/64", "::ffff:10.0.0.1/120")
RECORDS = st.one_of(
    st.builds(ClaimRecords, st.builds(observed_too, ALLOCATIONS), st.none() | ATTACHMENTS),
    st.builds(lambda one, other: ClaimRecords(one, paired(one, other)), ALLOCATIONS, ATTACHMENTS),
    st.builds(ClaimRecords, st.none(), ATTACHMENTS),
)


@settings(max_examples=25)  # each is two large records
@given(RECORDS, st.sampled_from([0.0, SLOW_S]))
def test_any_status_is_valid_for_the_api(records: ClaimRecords, age_s: float) -> None:
    found = status_update(records, age_s, NOW)

    devices = found.devices or ()
    assert len({device.key for device in devices}) == len(devices)
    for device in devices:
        types = [condition.type for condition in device.conditions]
        assert TYPES.issuperset(types)
        assert len(set(types)) == len(types)
        for condition in device.conditions:
            assert reason_of(condition.reason) == condition.reason
            assert len(condition.message.encode()) <= MAX_MESSAGE
        addresses = device.network.addresses if device.network else ()
        assert len(set(addresses)) == len(addresses) <= MAX_IPS
        assert all(str(ip_interface(address)) == address for address in addresses)
    for entry in found.events:
        event: Any = new_event(entry, 1, "v1", "node-1")
        assert reason_of(entry.reason) == entry.reason
        assert len(entry.message.encode()) <= MAX_EVENT
        assert len(event["metadata"]["name"]) <= MAX_NAME


@settings(max_examples=25)
@given(ALLOCATIONS, ATTACHMENTS)
def test_applied_status_is_not_applied_again(
    allocation: Allocation, attachment: Attachment
) -> None:
    here = tuple(replace(device, pool="node-1") for device in allocation.devices)
    allocation = replace(allocation, devices=here)
    statuses = device_statuses(allocation, paired(allocation, attachment))
    results = [
        {"request": "r", "driver": "dra.net", "pool": result.pool, "device": result.device}
        | ({"shareID": result.share_id} if result.share_id else {})
        for result in statuses
    ]
    claim = claim_of("fast", "claim-1", results, [])
    document: Any = claim_document(claim, statuses, STAMP, "node-1")

    claim["status"]["devices"] = document["status"]["devices"] if document else []

    assert len(claim["status"]["devices"]) == len(statuses)
    assert claim_document(claim, statuses, "2030-01-01T00:00:00Z", "node-1") is None
