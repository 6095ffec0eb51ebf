"""A slow, hung or late failing kernel: hooks answer in time, and other pods are not affected.

In time means that the runtime took the answer: at its timeout it throws the plugin out, and the
plugin would have to serve anew.
"""

from collections.abc import Iterator

import pytest

from tests.box.attach import (
    NO_SPEC,
    assert_restored,
    container_once_open,
    links_in,
    remove,
    start_pod,
    waiting_pod,
)
from tests.box.claims import allocate, release, release_all
from tests.box.cri import Cri, CriError, Pod
from tests.box.faults import FaultyPlugin, fault
from tests.box.nics import Nic, ip
from tests.box.plugin import status
from tests.box.runtime import Options
from tests.box.waiting import wait_until

Words = tuple[str, ...]

INTO_THE_POD = ("move link", "from host to pod as nic0")
MOVE_BACK = ("move link", "from pod to host as nic0")
ROOMY = Options(request_timeout_s=10)  # two seconds for the answer's way, where 2 leave 0.4


@pytest.fixture(scope="module")
def runtime_options() -> Options:
    """Return options of a runtime with long timeouts, for a busy machine."""
    return ROOMY


@pytest.fixture
def faulty(cri: Cri) -> Iterator[FaultyPlugin]:
    """Return the plugin, serving, on a kernel that may have faults."""
    yield from serving(cri, FaultyPlugin())


@pytest.fixture
def frequent_resync(cri: Cri) -> Iterator[FaultyPlugin]:
    """Return a plugin that verifies every pod each second."""
    yield from serving(cri, FaultyPlugin("--resync-period", "1"))


def serving(cri: Cri, plugin: FaultyPlugin) -> Iterator[FaultyPlugin]:
    """Start it; leave neither it nor a pod or claim behind."""
    plugin.start()
    yield plugin
    try:
        cri.remove_all()  # while a plugin restores the NICs
    finally:
        plugin.stop()
        release_all()


def assert_still_connected(plugin: FaultyPlugin) -> None:
    """Assert that the plugin still has the connection it began with."""
    assert plugin.said("serving") == 1
    assert not plugin.said("disconnected")


def assert_others_work(cri: Cri, nic: Nic) -> None:
    """Assert that an ordinary pod and one that claims the NIC come and go."""
    ordinary = cri.run_pod("ordinary")
    cri.run_container(ordinary)
    pod, container = start_pod(cri, "other", [nic])
    assert nic.cidr in links_in(cri, container)[nic.name]
    remove(cri, pod)
    assert nic.name in ip("-o", "link")
    end(cri, ordinary)


def end(cri: Cri, pod: Pod) -> None:
    """End the pod; its claims stay."""
    cri.stop_pod(pod.sandbox_id)
    cri.remove_pod(pod.sandbox_id)


def wait_hung(plugin: FaultyPlugin, device: str, step: str) -> None:
    """Return once log and status report the device as hung at the step."""
    plugin.wait_said("hung in the kernel", step)
    assert step in status(device)["reason"]
    assert "has not returned" in status(device)["reason"]


# --------------------------------------------------------------------------- attach


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(INTO_THE_POD, marks=pytest.mark.every_runtime),
        ("add address", "nic0"),
        ("observe nic0",),
    ],
)
def test_slow_attach_is_accepted_and_completed_behind_the_gate(
    cri: Cri,
    faulty: FaultyPlugin,
    nics: tuple[Nic, ...],
    before: dict[str, object],
    step: Words,
) -> None:
    with fault(*step) as slow:
        pod, claim = waiting_pod(cri, "slow", nics[:1])  # accepted, and its container refused
        faulty.wait_said("hook at its deadline", "RunPodSandbox")
        wait_hung(faulty, "nic0", step[0])
        assert_others_work(cri, nics[1])
        assert slow.steps
    container = container_once_open(cri, pod, claim.spec())

    assert nics[0].cidr in links_in(cri, container)[nics[0].name]
    faulty.wait_said("no longer hung", "default/slow")
    assert status("nic0")["reason"] == ""
    assert_still_connected(faulty)
    remove(cri, pod)
    assert_restored(before)


def test_container_without_a_gate_waits_for_a_slow_attach(
    cri: Cri, faulty: FaultyPlugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    allocate("loose", nics[:1], "loose-uid", containers=())
    with fault(*INTO_THE_POD):
        pod = cri.run_pod("loose")
        with pytest.raises(CriError, match="devices are still being attached"):
            cri.create_container(pod)
    assert_still_connected(faulty)
    remove(cri, pod)
    assert_restored(before)


def test_pod_with_a_hung_attach_can_be_ended_and_its_nic_is_restored_later(
    cri: Cri, faulty: FaultyPlugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    with fault("add address", "nic0") as hang:
        pod, _ = waiting_pod(cri, "stuck", nics[:1])
        end(cri, pod)
        faulty.wait_said("hook at its deadline", "StopPodSandbox")
        wait_hung(faulty, "nic0", "add address")
        assert_others_work(cri, nics[1])
        assert hang.steps
    wait_until("the NIC to be restored", lambda: status("nic0")["state"] == "restored")

    assert status("nic0")["reason"] == ""
    assert_still_connected(faulty)
    release("stuck-uid")
    assert_restored(before)


def test_next_sandbox_gets_the_nic_of_a_hung_attach(
    cri: Cri, faulty: FaultyPlugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    with fault(*INTO_THE_POD) as hang:
        first, claim = waiting_pod(cri, "again", nics[:1])
        end(cri, first)
        second = cri.run_pod("again")
        with pytest.raises(CriError, match=NO_SPEC):
            cri.create_container(second, spec=claim.spec())
        assert len(hang.steps) == 1, "the NIC is touched once"
    container = container_once_open(cri, second, claim.spec())

    assert nics[0].cidr in links_in(cri, container)[nics[0].name]
    assert_still_connected(faulty)
    remove(cri, second)
    assert_restored(before)


def test_attach_that_fails_after_the_answer_is_undone_reported_and_retried(
    cri: Cri, faulty: FaultyPlugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    with fault("add address", "nic0", refuse=True) as slow:
        pod, claim = waiting_pod(cri, "failing", nics[:1])
        with fault(*INTO_THE_POD) as again:  # of the second try
            slow.end()
            again.wait()
            assert nics[0].name in ip("-o", "link"), "undone before the retry"
            assert "add address" in status("nic0")["reason"]
            faulty.wait_said("failed", "add address", "EBUSY")
            with pytest.raises(CriError, match=NO_SPEC):
                cri.create_container(pod, spec=claim.spec())
    container = container_once_open(cri, pod, claim.spec())

    assert nics[0].cidr in links_in(cri, container)[nics[0].name]
    assert status("nic0")["reason"] == ""
    assert_still_connected(faulty)
    remove(cri, pod)
    assert_restored(before)


# --------------------------------------------------------------------------- detach and reconcile


@pytest.mark.every_runtime
def test_hung_detach_delays_neither_its_pod_nor_others(
    cri: Cri, faulty: FaultyPlugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    pod, _ = start_pod(cri, "leaving", nics[:1])
    with fault(*MOVE_BACK) as hang:
        end(cri, pod)
        wait_hung(faulty, "nic0", MOVE_BACK[0])
        assert_others_work(cri, nics[1])
        assert hang.steps
    wait_until("the NIC to be restored", lambda: status("nic0")["state"] == "restored")

    assert status("nic0")["reason"] == ""
    assert_still_connected(faulty)
    release("leaving-uid")
    assert_restored(before)


def test_hung_detach_of_one_claim_does_not_delay_the_other_claim_of_the_pod(
    cri: Cri, faulty: FaultyPlugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    allocate("one", nics[:1], "two-uid", pod="two")
    allocate("other", nics[1:2], "two-uid", pod="two")
    pod = cri.run_pod("two")
    with fault(*MOVE_BACK) as hang:
        end(cri, pod)
        wait_until("the other NIC to be restored", lambda: status("nic1")["state"] == "restored")
        assert hang.steps
    wait_until("the NIC to be restored", lambda: status("nic0")["state"] == "restored")

    assert_still_connected(faulty)
    release("two-uid")
    assert_restored(before)


def test_reconcile_that_hangs_at_one_pod_repairs_the_next(
    cri: Cri, frequent_resync: FaultyPlugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    first, container = start_pod(cri, "first", nics[:1])
    second, _ = start_pod(cri, "second", nics[1:2])
    netns = str(cri.netns(second)).rpartition("/")[2]
    with fault("observe nic0") as hang:
        wait_hung(frequent_resync, "nic0", "observe nic0")
        assert nics[0].cidr in links_in(cri, container)[nics[0].name]
        ip("-n", netns, "link", "set", nics[1].name, "netns", "1")
        wait_until("it to be repaired", lambda: nics[1].cidr in ip("-n", netns, "-o", "addr"))
        assert hang.steps
        remove(cri, second)
        end(cri, first)
        assert nics[1].name in ip("-o", "link")
    wait_until("the NIC to be restored", lambda: status("nic0")["state"] == "restored")

    assert_still_connected(frequent_resync)
    release("first-uid")
    assert_restored(before)


# --------------------------------------------------------------------------- the plugin's end


def test_plugin_stopped_during_a_hang_ends_and_the_next_one_completes_the_attach(
    cri: Cri, faulty: FaultyPlugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    with fault("add address", "nic0") as hang:
        pod, claim = waiting_pod(cri, "handed", nics[:1])
        wait_hung(faulty, "nic0", "add address")

        faulty.stop()

        assert hang.steps, "it ended although the thread did not come back"
        assert faulty.said("stopped")
        assert "has not returned" in status("nic0")["reason"]
        with pytest.raises(CriError, match=NO_SPEC):
            cri.create_container(pod, spec=claim.spec())
    faulty.start()
    container = container_once_open(cri, pod, claim.spec())

    assert nics[0].cidr in links_in(cri, container)[nics[0].name]
    assert status("nic0")["reason"] == ""
    remove(cri, pod)
    assert_restored(before)
