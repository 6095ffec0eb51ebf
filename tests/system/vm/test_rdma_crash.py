"""The plugin killed between an RDMA device's move and its NIC's; hack/prove runs all of them."""

import pytest

from tests.box import rdma
from tests.box.nics import Nic
from tests.prove.fabric import add_devices
from tests.prove.matrix import rehearsed, row
from tests.prove.shapes import shape
from tests.prove.stage import After, Stage


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "after"),
    [("attach 1 NIC", After.LISTED), ("attach 1 NIC", After.GONE), ("detach 1 NIC", After.GONE)],
)
def test_plugin_killed_after_the_move_of_an_rdma_device_loses_nothing(
    movable_rdma: None, nics: tuple[Nic, ...], name: str, after: After
) -> None:
    stage = Stage("vm rdma", add_devices(nics[:1]), lambda: nics[:1])
    whole = rdma.links()
    rehearsed(stage, shape(name))

    played, died = row(stage, shape(name), after, 1, "move RDMA device")

    assert died
    assert played.loss is None, f"{played.event}: {played.detail}"
    assert rdma.links() == whole
