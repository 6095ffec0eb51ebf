"""The contract between our client and an API server, tested against the in-memory server.

tests/system/cluster/test_api_contract.py runs the same tests against a real server. Names are
unique to each test, because a real server is not created anew.
"""

from contextlib import aclosing
from typing import Any
from uuid import uuid4

import pytest

from dra_shim.kubeapi import (
    CLAIM,
    NODE,
    SLICE,
    ApiClient,
    ConflictError,
    InvalidError,
    Kind,
    NotFoundError,
    NotServedError,
    WatchEventType,
    name_of,
    uid_of,
    version_of,
)
from tests.dra_shim.kubeapi.client_bench import FakeSubject, Subject, slice_document
from tests.dranet_nri.nri.stub.plugin_bench import finish

pytestmark = pytest.mark.process


LONG = "x" * 65  # one byte more than an attribute may have


@pytest.fixture
def subject() -> Subject:
    """Return the in-memory server."""
    return FakeSubject()


def unique(prefix: str) -> str:
    """Return a name that no other test uses."""
    return f"{prefix}-{uuid4().hex[:12]}"


def test_newest_common_api_version_is_used(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            assert await api.version(SLICE) == "v1"
            assert await api.version(NODE) == "v1"

    finish(scenario())


def test_created_object_can_be_read(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            name = unique("slice")
            made = await api.create(SLICE, slice_document(name))
            read = await api.get(SLICE, name)

            assert read == made
            assert (name_of(read), bool(uid_of(read)), bool(version_of(read))) == (name, True, True)
            assert (read["apiVersion"], read["kind"]) == ("resource.k8s.io/v1", "ResourceSlice")

    finish(scenario())


def test_create_with_an_existing_name_is_a_conflict(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            document = slice_document(unique("slice"))
            await api.create(SLICE, document)

            with pytest.raises(ConflictError, match=f"create ResourceSlice {name_of(document)}: "):
                await api.create(SLICE, document)

    finish(scenario())


def test_dry_run_returns_the_object_and_creates_nothing(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            document = slice_document(unique("slice"))
            shown = await api.create(SLICE, document, dry_run=True)

            assert name_of(shown) == name_of(document)
            with pytest.raises(NotFoundError):
                await api.get(SLICE, name_of(document))

    finish(scenario())


def test_replace_of_a_changed_object_is_a_conflict(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            first = await api.create(SLICE, slice_document(unique("slice")))
            second = await api.replace(SLICE, with_devices(first, "nic-0", "nic-1"))

            with pytest.raises(ConflictError):
                await api.replace(SLICE, with_devices(first, "nic-9"))

            assert await api.get(SLICE, name_of(first)) == second
            assert devices_of(second) == ["nic-0", "nic-1"]

    finish(scenario())


def test_replace_without_a_change_keeps_the_resource_version(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            made = await api.create(SLICE, slice_document(unique("slice")))

            again = await api.replace(SLICE, made)

            assert version_of(again) == version_of(made)

    finish(scenario())


def test_replace_of_a_deleted_object_fails(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            made = await api.create(SLICE, slice_document(unique("slice")))
            await api.delete(SLICE, name_of(made), uid_of(made))

            with pytest.raises((NotFoundError, ConflictError)):
                await api.replace(SLICE, made)

    finish(scenario())


def test_delete_requires_the_uid_and_resource_version(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            made = await api.create(SLICE, slice_document(unique("slice")))
            name, uid = name_of(made), uid_of(made)
            changed = await api.replace(SLICE, with_devices(made, "nic-1"))

            with pytest.raises(ConflictError):
                await api.delete(SLICE, name, "another")
            with pytest.raises(ConflictError):
                await api.delete(SLICE, name, uid, version_of(made))
            await api.delete(SLICE, name, uid, version_of(changed))
            with pytest.raises(NotFoundError):
                await api.delete(SLICE, name, uid)

    finish(scenario())


def test_list_has_only_the_objects_of_its_selector(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            node = unique("node")
            names = [unique("slice"), unique("slice")]
            for name in names:
                await api.create(SLICE, slice_document(name, node))
            await api.create(SLICE, slice_document(unique("slice"), unique("node")))
            await api.create(SLICE, slice_document(unique("slice"), node, driver="gpu.example.com"))

            listing = await api.list(SLICE, driver_slices(node))

            assert sorted(map(name_of, listing.items)) == sorted(names)
            assert listing.version

    finish(scenario())


def test_watch_returns_the_changes_after_a_list(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            node, name = unique("node"), unique("slice")
            since = (await api.list(SLICE, driver_slices(node))).version

            made = await api.create(SLICE, slice_document(name, node))
            await api.create(SLICE, slice_document(unique("slice"), unique("node")))
            changed = await api.replace(SLICE, with_devices(made, "nic-7"))
            await api.delete(SLICE, name, uid_of(made))

            changes = await watched(api, node, since, 3)
            assert [change for change, _ in changes] == [
                WatchEventType.ADDED,
                WatchEventType.MODIFIED,
                WatchEventType.DELETED,
            ]
            assert changes[0][1] == made
            assert changes[1][1] == changed
            assert devices_of(changes[2][1]) == ["nic-7"]

    finish(scenario())


def test_watch_continues_from_the_resource_version_of_an_event(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            node, name = unique("node"), unique("slice")
            made = await api.create(SLICE, slice_document(name, node))
            await api.replace(SLICE, with_devices(made, "nic-7"))

            changes = await watched(api, node, version_of(made), 1)

            assert [(change, devices_of(event)) for change, event in changes] == [
                (WatchEventType.MODIFIED, ["nic-7"])
            ]

    finish(scenario())


def test_watch_ends_after_its_timeout(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            node = unique("node")
            since = (await api.list(SLICE, driver_slices(node))).version

            async with aclosing(api.watch(SLICE, driver_slices(node), since, 1)) as events:
                changes = [event async for event in events]

            assert {event.change for event in changes} <= {WatchEventType.BOOKMARK}

    finish(scenario())


def test_invalid_device_is_named_by_its_field_path(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            bad = {"name": "nic-1", "attributes": {"dra.net/alias": {"string": LONG}}}
            document = slice_document(unique("slice"), devices=[{"name": "nic-0"}, bad])

            with pytest.raises(InvalidError) as caught:
                await api.create(SLICE, document)

            fields = [cause.field for cause in caught.value.causes]
            assert fields == ["spec.devices[1].attributes[dra.net/alias].string"]
            assert caught.value.causes[0].message

    finish(scenario())


def test_apply_changes_only_the_fields_of_its_field_manager(
    subject: Subject,
) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            claim = await allocated_claim(api, "nic-0", "nic-1")
            of_driver = [device_status("nic-0"), device_status("nic-1")]
            of_other_driver = [device_status("gpu-0", "gpu.example.com")]

            await apply_status(api, claim, "dra.net", of_driver)
            both = await apply_status(api, claim, "gpu.example.com", of_other_driver)
            after = await apply_status(api, claim, "dra.net", of_driver[:1])

            assert sorted(devices_in_status(both)) == ["gpu-0", "nic-0", "nic-1"]
            assert sorted(devices_in_status(after)) == ["gpu-0", "nic-0"]

    finish(scenario())


def test_status_is_not_applied_to_an_object_with_another_uid(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            claim = await allocated_claim(api, "nic-0")
            metadata = {"name": name_of(claim), "uid": "11111111-1111-1111-1111-111111111111"}
            namesake = {"metadata": metadata}

            with pytest.raises(ConflictError):
                await apply_status(api, namesake, "dra.net", [device_status("nic-0")])

    finish(scenario())


def test_status_is_not_applied_to_a_changed_claim(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            claim = await allocated_claim(api, "nic-0")
            identity = {"name": name_of(claim), "uid": uid_of(claim)}
            first = await apply_status(api, claim, "dra.net", [device_status("nic-0")])
            fresh = {"metadata": {**identity, "resourceVersion": version_of(first)}, "status": {}}
            second = await api.apply(CLAIM, fresh, "dra.net", "default", "status")

            with pytest.raises(ConflictError):
                await api.apply(CLAIM, fresh, "dra.net", "default", "status")

            assert await api.get(CLAIM, name_of(claim), "default") == second

    finish(scenario())


def test_unknown_kind_is_reported_as_not_served(subject: Subject) -> None:
    async def scenario() -> None:
        async with subject.client() as api:
            with pytest.raises(NotServedError):
                await api.list(Kind("Gizmo", "gizmos", "resource.k8s.io"))

    finish(scenario())


# --------------------------------------------------------------------------- arranging


def driver_slices(node: str) -> dict[str, str]:
    """Return the selector of the driver's slices of a node."""
    return {"spec.nodeName": node, "spec.driver": "dra.net"}


def with_devices(document: dict[str, Any], *names: str) -> dict[str, Any]:
    """Return the slice with other devices."""
    spec = {**document["spec"], "devices": [{"name": name} for name in names]}
    return {**document, "spec": spec}


def devices_of(document: Any) -> list[str]:
    """Return the names of a slice's devices."""
    return [device["name"] for device in document["spec"]["devices"]]


async def watched(
    api: ApiClient, node: str, since: str, count: int
) -> list[tuple[WatchEventType, Any]]:
    """Return the first changes to our slices of a node."""
    changes: list[tuple[WatchEventType, Any]] = []
    async with aclosing(api.watch(SLICE, driver_slices(node), since, 60)) as events:
        async for event in events:
            if event.change is not WatchEventType.BOOKMARK:
                changes.append((event.change, event.object))
            if len(changes) == count:
                break
    return changes


async def allocated_claim(api: ApiClient, *devices: str) -> dict[str, Any]:
    """Create a claim that has these devices of the driver, and a GPU."""
    requests = [{"name": "all", "exactly": {"deviceClassName": "dranet", "allocationMode": "All"}}]
    document = {"metadata": {"name": unique("claim")}, "spec": {"devices": {"requests": requests}}}
    claim = await api.create(CLAIM, document, "default")
    pairs = [*(("dra.net", device) for device in devices), ("gpu.example.com", "gpu-0")]
    results = [
        {"request": "all", "driver": driver, "pool": "node-1", "device": device}
        for driver, device in pairs
    ]
    status = {"allocation": {"devices": {"results": results}}}
    named = {"metadata": {"name": name_of(claim)}, "status": status}
    await api.apply(CLAIM, named, "scheduler", "default", "status")
    return claim


def device_status(device: str, driver: str = "dra.net") -> dict[str, Any]:
    """Return an entry of status.devices."""
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "NetworkDeviceReady",
        "message": "",
        "lastTransitionTime": "2026-11-20T12:00:00Z",
    }
    return {"driver": driver, "pool": "node-1", "device": device, "conditions": [condition]}


async def apply_status(
    api: ApiClient, claim: dict[str, Any], manager: str, devices: list[dict[str, Any]]
) -> dict[str, Any]:
    """Apply the status of a claim's devices; return the claim."""
    metadata = {"name": name_of(claim), "uid": uid_of(claim)}
    document = {"metadata": metadata, "status": {"devices": devices}}
    return await api.apply(CLAIM, document, manager, "default", "status")


def devices_in_status(claim: dict[str, Any]) -> list[str]:
    """Return the names of the devices in a claim's status."""
    return [device["device"] for device in claim["status"]["devices"]]
