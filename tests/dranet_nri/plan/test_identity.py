"""Identity of a virtual device by the index of its link."""

import pytest

from dranet_nri.model import Link
from dranet_nri.plan.identity import DeviceIdentity


@pytest.mark.parametrize(("index", "same"), [(3, True), (7, True), (4, False), (0, False)], ids=str)
def test_link_may_have_the_index_of_host_or_pod(index: int, *, same: bool) -> None:
    identity = DeviceIdentity(3, "veth", frozenset(), pod_index=7)

    assert identity.has_index(Link(index, "eth0")) is same


def test_unknown_index_matches_no_link() -> None:
    assert not DeviceIdentity(0, "veth", frozenset()).has_index(Link(0, "eth0"))
