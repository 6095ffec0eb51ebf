"""The plugin killed between an RDMA device's move and its NIC's; hack/prove runs all of them."""

import pytest

from tests.box import rdma
from tests.box.nics import Nic
from tests.prove.environment import After, HostEnvironment
from tests.prove.matrix import require_expected, row
from tests.prove.rdma_functions import add_devices
from tests.prove.shapes import shape


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "after"),
    [("attach 1 NIC", After.LISTED), ("attach 1 NIC", After.GONE), ("detach 1 NIC", After.GONE)],
)
def test_plugin_killed_after_the_move_of_an_rdma_device_loses_nothing(
    movable_rdma: None, nics: tuple[Nic, ...], name: str, after: After
) -> None:
    environment = HostEnvironment("vm rdma", add_devices(nics[:1]), lambda: nics[:1])
    whole = rdma.links()
    require_expected(environment, shape(name))

    result, died = row(environment, shape(name), after, 1, "move RDMA device")

    assert died
    assert result.loss is None, f"{result.event}: {result.detail}"
    assert rdma.links() == whole
