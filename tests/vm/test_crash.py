"""The plugin killed in the middle, on hardware that comes back by itself; see the host tier."""

import pytest

from tests.box.nics import Nic
from tests.prove.matrix import rehearsed, row
from tests.prove.shapes import shape
from tests.prove.stage import After, Stage


@pytest.mark.timeout(300)
def test_a_plugin_killed_while_it_restores_what_the_kernel_returned_costs_the_host_nothing(
    nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    stage = Stage("vm", nics, lambda: nics)
    destroyed = shape("destroyed 1 NIC")
    rehearsed(stage, destroyed)

    played, died = row(stage, destroyed, After.GONE, 1, "add address")

    assert died
    assert played.loss is None, f"{played.event}: {played.detail}"
