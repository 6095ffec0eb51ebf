"""A plugin that dies while a real containerd waits for it, and the one that takes over."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tests.box.attach import NO_SPEC, container_once_open, links_in, start_pod
from tests.box.claims import Allocated, allocate
from tests.box.cri import Cri, CriError, Pod
from tests.box.nics import Nic
from tests.box.plugin import Plugin
from tests.prove.crashing_plugin import CrashingPlugin


def run_pod_and_die(
    cri: Cri,
    nics: Sequence[Nic],
    word: str,
    last: int,
    config: Mapping[str, object] | None = None,
) -> tuple[Pod, Allocated]:
    """Run a pod whose plugin dies of it, after event number last of those that have the word.

    A container gets no further then, unless the NICs are there.
    """
    crashing = CrashingPlugin()
    crashing.start_with_trigger(word, last)
    try:
        claim = allocate("crashing", nics, "crashing-uid", config=config)
        crashing.arm()
        pod = cri.run_pod("crashing")
        assert word in crashing.wait_for_crash()
    finally:
        crashing.kill()
    try:
        early = cri.run_container_once(pod, "early", claim.spec())
    except CriError as error:
        assert re.search(NO_SPEC, str(error))  # noqa: PT017 (both ends are right)
    else:
        assert_whole(cri, early, nics)
    return pod, claim


def start_whole(cri: Cri, clean: Plugin, pod: Pod, claim: Allocated, nics: Sequence[Nic]) -> None:
    """Let another plugin take over; the pod's container then starts with every NIC."""
    clean.start()
    assert_whole(cri, container_once_open(cri, pod, claim.spec()), nics)


def assert_whole(cri: Cri, container: str, nics: Sequence[Nic]) -> None:
    """Assert that the container has every NIC with its address."""
    links = links_in(cri, container)
    for nic in nics:
        assert nic.cidr in links[nic.name]


def end_pod_and_die(cri: Cri, nics: Sequence[Nic], word: str, last: int) -> None:
    """End a pod with the NICs, whose plugin dies of it."""
    crashing = CrashingPlugin()
    crashing.start_with_trigger(word, last)
    try:
        pod, _ = start_pod(cri, "crashing", nics)
        crashing.arm()
        end(cri, pod)
        assert word in crashing.wait_for_crash()
    finally:
        crashing.kill()


def end(cri: Cri, pod: Pod) -> None:
    """End the pod; its claims stay."""
    cri.stop_pod(pod.sandbox_id)
    cri.remove_pod(pod.sandbox_id)
