"""The plugin killed in the middle, on hardware that the kernel returns; see the host tier."""

import pytest

from tests.box.attach import assert_restored
from tests.box.claims import release
from tests.box.crash import end_pod_and_die
from tests.box.cri import Cri
from tests.box.nics import Nic, ip
from tests.box.plugin import RUN, Plugin
from tests.box.waiting import wait_until
from tests.prove.environment import After, HostEnvironment
from tests.prove.matrix import require_expected, row
from tests.prove.shapes import shape


@pytest.mark.timeout(300)
def test_plugin_killed_during_the_restore_of_a_returned_nic_loses_nothing(
    nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    environment = HostEnvironment("vm", nics, lambda: nics)
    destroyed = shape("destroyed 1 NIC")
    require_expected(environment, destroyed)

    result, died = row(environment, destroyed, After.GONE, 1, "add address")

    assert died
    assert result.loss is None, f"{result.event}: {result.detail}"


@pytest.mark.timeout(300)
@pytest.mark.emulated
def test_plugin_killed_before_the_move_to_the_host_finds_the_returned_nic(
    cri: Cri, absent: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    end_pod_and_die(cri, nics[:1], "down in pod", 1)  # the namespace dies, the kernel returns it

    absent.start()
    wait_until("the NIC to be on the host", lambda: nics[0].name in ip("-o", "link"))
    release("crashing-uid")
    wait_until("the claim to be forgotten", lambda: not list(RUN.glob("attachments/*.json")))

    assert_restored(before)
