"""NICs and their virtual functions: what the real scheduler gives of them, and our allocator."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.machines import split
from tests.system.cluster import documents
from tests.system.cluster.api import Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.second_opinion import our_refusals
from tests.system.cluster.site import Site

CANNOT = "cannot allocate all claims"
ADMIN = {"resource.kubernetes.io/admin-access": "true"}


@pytest.fixture
def site(cluster: ControlPlane) -> Iterator[Site]:
    """Return a cluster with a node that has two NICs of two virtual functions each."""
    site = Site(cluster)
    site.add(split())
    yield site
    site.delete()


def claim_interface(site: Site, name: str, interface: str, **more: Any) -> str:
    """Have a pod claim a NIC by its name; return its namespace."""
    namespace = site.namespace(ADMIN)
    (node,) = site.nodes
    claim = documents.nic_claim(name, interface, **more)
    pod = documents.pod(name, "nic", node=node)
    site.create(namespace, documents.device_class(), claim, pod)
    return namespace


def given(site: Site, namespace: str) -> list[object]:
    """Return the interfaces that the namespace's one pod was given."""
    (pod,) = site.placed(namespace, 1)
    return [slice_device.attribute("dra.net/ifName") for _, slice_device in pod.devices]


def refused(site: Site, namespace: str) -> str:
    """Return why we would not meet the namespace's claim, once the scheduler did not."""
    (reason,) = site.refusal(namespace)
    assert CANNOT in reason
    pending: list[Object] = site.claims(namespace)
    (reason,) = our_refusals(site, pending)
    return reason


def test_pf_and_its_vfs_are_not_allocated_together(site: Site) -> None:
    for name in ("eth10", "eth20v0"):
        assert given(site, claim_interface(site, name, name)) == [name]

    assert "needs 1, 0 is left" in refused(site, claim_interface(site, "below", "eth10v1"))
    assert "needs 2, 1 is left" in refused(site, claim_interface(site, "above", "eth20"))
    assert given(site, claim_interface(site, "beside", "eth20v1")) == ["eth20v1"]


def test_admin_access_claim_needs_free_counters_when_scheduled(site: Site) -> None:
    given(site, claim_interface(site, "first", "eth10v0"))

    admin_claims = [
        claim_interface(site, f"look-{number}", "eth10v0", adminAccess=True) for number in range(2)
    ]

    assert [given(site, look) for look in admin_claims] == [["eth10v0"]] * 2
    given(site, claim_interface(site, "second", "eth10v1"))
    late = claim_interface(site, "late", "eth10v0", adminAccess=True)
    assert "needs 1, 0 is left" in refused(site, late)
