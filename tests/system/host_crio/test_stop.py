"""Particular behaviour of CRI-O at the end of a pod and after a rejected sandbox.

It takes the network namespace away before it tells plugins that the sandbox stops, and asks again
until they agree. A sandbox that a plugin rejects is gone at once.
"""

import threading
from collections.abc import Iterator

import pytest

from tests.box.attach import assert_restored, remove, start_pod
from tests.box.claims import allocate, release, release_all
from tests.box.cri import Cri, CriError
from tests.box.faults import FaultyPlugin, fault
from tests.box.nics import Nic, ip
from tests.box.plugin import Plugin, status
from tests.box.runtime import Runtime
from tests.box.trouble import assert_usable, until_phase


@pytest.fixture
def faulty(cri: Cri) -> Iterator[FaultyPlugin]:
    """Return the plugin, serving, on a kernel that may have faults."""
    plugin = FaultyPlugin()
    plugin.start()
    yield plugin
    try:
        cri.remove_all()  # while a plugin restores the NICs
    finally:
        plugin.stop()
        release_all()


def test_pod_with_an_unlinked_namespace_returns_its_nics(
    cri: Cri, faulty: FaultyPlugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    pod, _ = start_pod(cri, "ended", nics[:2])
    netns = cri.netns(pod)
    assert netns is not None
    assert netns.exists()

    with fault("move link", "from pod to host") as hang:
        cri.stop_pod(pod.sandbox_id)
        assert hang.steps
        assert not netns.exists()
        assert nics[0].name not in ip("-o", "link")
    until_phase("ended", "restored")

    remove(cri, pod)
    assert_restored(before)


def test_failed_stop_is_repeated_by_the_runtime_and_loses_no_nic(
    cri: Cri, faulty: FaultyPlugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    pod, _ = start_pod(cri, "failing", nics[:1])
    errors: list[CriError] = []

    def stop() -> None:
        try:
            cri.stop_pod(pod.sandbox_id)
        except CriError as error:
            errors.append(error)

    with fault("hook StopPodSandbox", "default/failing", refuse=True) as failure:
        kubelet = threading.Thread(target=stop)
        kubelet.start()
        failure.wait()
    kubelet.join()
    (error,) = errors
    assert "the fault's" in error.details
    assert status("nic0")["pod"] == "default/failing"
    assert nics[0].name not in ip("-o", "link")

    remove(cri, pod)

    assert_restored(before)


def test_rejected_sandbox_leaves_nothing_in_the_runtime(
    runtime: Runtime, cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    allocate("rejected", nics[:1], "rejected-uid")
    for _ in range(2):  # kubelet's next try has the same name where no record is kept
        with pytest.raises(CriError, match="hostNetwork"):
            cri.run_pod("rejected", host_network=True)
    release("rejected-uid")

    assert cri.pods() == ()
    runtime.restart()
    with Cri(f"unix://{runtime.socket}") as again:
        assert again.pods() == ()
        remove(again, assert_usable(again, "rejected", nics[0]))
    assert_restored(before)
