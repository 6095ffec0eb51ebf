"""Reasons why a recorded device may not leave the host."""

from dataclasses import replace

import pytest

from dranet_nri.inventory import HazardRules, HostFacts, why_unpublished
from dranet_nri.model import ARPHRD_INFINIBAND, DefaultRoute, DeviceKey
from tests.dranet_nri.inventory.parts import VF, nic, virtual

HCA = "0000:5e:00.0"
IPOIB = nic("ib0", 5, HCA)
IPOIB = replace(IPOIB, link=replace(IPOIB.link, arphrd=ARPHRD_INFINIBAND))
FACTS = HostFacts(
    netdevs=(nic("eth0", 2, VF), nic("eth1", 3), virtual("dummy7", 4), IPOIB),
    default_routes=(DefaultRoute(4, 0, (2, 5)),),
)
FUNCTION = DeviceKey("pci", VF, "", VF)
VIRTUAL = DeviceKey("", "", "dummy7")


@pytest.mark.parametrize(
    ("key", "index", "excluded"),
    [
        pytest.param(FUNCTION, 2, "eth0", id="its link"),
        pytest.param(FUNCTION, None, "eth0", id="every link of its function"),
        pytest.param(DeviceKey("auxiliary", "sf.1", "", VF), None, "eth0", id="of the one above"),
        pytest.param(FUNCTION, 3, "", id="another link"),
        pytest.param(VIRTUAL, 4, "", id="a virtual one"),
        pytest.param(VIRTUAL, None, "", id="one that is nowhere"),
        pytest.param(DeviceKey("pci", HCA, "ib0", HCA), 5, "ib0", id="an IPoIB link"),
        pytest.param(DeviceKey("pci", HCA, "", HCA), None, "", id="RDMA whose IPoIB link stays"),
    ],
)
def test_device_is_refused_for_its_link_or_a_link_of_its_parent(
    key: DeviceKey, index: int | None, excluded: str
) -> None:
    message = why_unpublished(key, index, FACTS, HazardRules(FACTS).reason)

    reported = f"{excluded}: the node's default route goes through it"
    assert message.startswith(reported) is bool(excluded)
    assert ("; it stays on the host: put" in message) is bool(excluded)
