"""The plugin killed while a real containerd waits for it, one row for each class of crashes.

test_crash.py plays such rows with a runtime of the tests' own, and hack/prove all of them.
"""

import pytest

from tests.box.attach import NO_SPEC, assert_restored, remove, start_pod
from tests.box.claims import release
from tests.box.crash import end, end_pod_and_die, run_pod_and_die, start_whole
from tests.box.cri import Cri, CriError
from tests.box.nics import Nic, ip
from tests.box.plugin import RUN, Plugin, status
from tests.box.waiting import wait_until
from tests.prove.crashing_plugin import CrashingPlugin
from tests.prove.observed_state import links

NOT_REACHABLE = {"routes": [{"destination": "172.31.0.0/16", "gateway": "198.51.100.1"}]}


@pytest.mark.parametrize(
    ("word", "last"),
    [
        ("closed the gate", 1),  # before anything is done
        ("about to record intent", 1),
        ("created attachments/", 1),  # the intent is written
        pytest.param("from host to pod", 1, marks=pytest.mark.every_runtime),
        ("add address", 1),  # amid the configuration
        ("about to record attached", 1),
        ("renamed attachments/", 1),  # the result is written
        ("staged cdi/", 1),  # before the gate opens
        ("renamed cdi/", 1),  # it is open
    ],
)
def test_attach_of_a_killed_plugin_is_completed_by_the_next_one(
    cri: Cri,
    absent: Plugin,
    nics: tuple[Nic, ...],
    before: dict[str, object],
    word: str,
    last: int,
) -> None:
    pod, claim = run_pod_and_die(cri, nics[:2], word, last)

    start_whole(cri, absent, pod, claim, nics[:2])

    remove(cri, pod)
    assert_restored(before)


def test_undo_of_a_killed_plugin_is_completed_by_the_next_one(
    cri: Cri, absent: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    pod, claim = run_pod_and_die(cri, nics[:2], "from pod to host", 1, NOT_REACHABLE)

    absent.start()
    wait_until("the reason to be reported", lambda: "172.31.0.0/16" in status("nic0")["reason"])
    wait_until("the NICs to be on the host", lambda: {nic.name for nic in nics[:2]} <= links())
    with pytest.raises(CriError, match=NO_SPEC):
        cri.create_container(pod, spec=claim.spec())

    remove(cri, pod)
    assert_restored(before)


@pytest.mark.parametrize(
    "word",
    [pytest.param("from pod to host", marks=pytest.mark.every_runtime), "about to record restored"],
)
def test_detach_of_a_killed_plugin_is_completed_by_the_next_one(
    cri: Cri, absent: Plugin, nics: tuple[Nic, ...], before: dict[str, object], word: str
) -> None:
    end_pod_and_die(cri, nics[:1], word, 1)

    absent.start()
    wait_until("the NIC to be restored", lambda: status("nic0")["state"] == "restored")

    release("crashing-uid")
    assert_restored(before)


@pytest.mark.parametrize("word", ["about to forget the claim", "removed attachments/"])
def test_plugin_killed_during_the_removal_of_a_record_leaves_none(
    cri: Cri, absent: Plugin, nics: tuple[Nic, ...], before: dict[str, object], word: str
) -> None:
    crashing = CrashingPlugin()
    crashing.start_with_trigger(word, 1)
    pod, _ = start_pod(cri, "crashing", nics[:1])
    end(cri, pod)
    crashing.arm()
    release("crashing-uid")
    assert word in crashing.wait_for_crash()
    crashing.kill()

    absent.start()
    wait_until("the claim to be forgotten", lambda: not list(RUN.glob("attachments/*.json")))

    assert nics[0].name in ip("-o", "link")
    assert_restored(before)
