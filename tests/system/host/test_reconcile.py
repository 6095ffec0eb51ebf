"""Reconcile after external changes: pods have their NICs, and unused NICs are restored."""

import os
import signal
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.box.attach import (
    NO_SPEC,
    assert_restored,
    cdi_of,
    container_once_open,
    links_in,
    plugin,
    remove,
    start_pod,
)
from tests.box.containerd import version
from tests.box.cri import ContainerSpec, Cri, CriError, Pod
from tests.box.nics import FIRST_RULE, SWITCH, Nic, host_state, ip, make_wire, settled
from tests.box.plugin import Plugin
from tests.box.refusals import is_open, refused
from tests.box.runtime import Runtime
from tests.box.trouble import (
    absent,
    assert_usable,
    claimed,
    held_namespaces,
    recorded,
    reported,
    sure_of_addresses,
    until_forgotten,
    until_phase,
)
from tests.box.waiting import wait_until

__all__ = ["absent", "plugin", "sure_of_addresses"]

SPARE = 40  # number of a NIC that a test may destroy
DEAF = "trap 'echo SIGTERM' TERM; echo deaf; while :; do sleep 1; done"
GRACE_S = 600  # of a container that the test ends; longer than any wait
LATE_LIST = "has not sent its list of pods for 10 s"


def kill_deaf() -> None:
    """Kill the containers that ignore SIGTERM."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(ProcessLookupError, FileNotFoundError):
            if DEAF.encode() in path.read_bytes():
                os.kill(int(path.parent.name), signal.SIGKILL)


def unplug() -> None:
    """Destroy what is left of the spare NIC on the host."""
    rule = ("rule", "del", "priority", str(FIRST_RULE + SPARE))
    for command in (
        ("link", "del", f"nic{SPARE}"),
        ("-n", SWITCH, "link", "del", f"wire{SPARE}"),
        rule,
    ):
        subprocess.run(("ip", *command), check=False, capture_output=True)


def plug(plugin: Plugin | None = None) -> Nic:
    """Recreate the spare NIC, before a running plugin finds it incomplete."""
    if plugin is not None:
        plugin.freeze()
    unplug()
    nic = make_wire(SPARE)
    if plugin is not None:
        plugin.thaw()
    return nic


@pytest.fixture
def spare(nics: tuple[Nic, ...]) -> Iterator[Nic]:
    """Return a NIC that the test may lose."""
    yield plug()
    unplug()


@pytest.fixture
def whole(cri: Cri, spare: Nic) -> dict[str, object]:
    """Return the host's state with the spare NIC."""
    settled()
    return host_state()


def netns_of(cri: Cri, pod: Pod) -> str:
    """Return the name of the pod's network namespace."""
    return str(cri.netns(pod)).rpartition("/")[2]


# ------------------------------------------------------------------- the plugin is down


@pytest.mark.every_runtime
def test_pod_deleted_while_the_plugin_is_down_leaves_no_record_and_no_open_gate(
    cri: Cri, plugin: Plugin, whole: dict[str, object], spare: Nic
) -> None:
    pod, _ = start_pod(cri, "deleted", [spare])
    plugin.kill()
    remove(cri, pod)  # a virtual NIC goes with its namespace
    plug()

    plugin.start()

    until_forgotten("deleted")
    assert not is_open("deleted")
    remove(cri, assert_usable(cri, "next", spare))
    assert_restored(whole)


def test_sandbox_recreated_while_the_plugin_is_down_gets_the_returned_nic(
    cri: Cri, plugin: Plugin, whole: dict[str, object], spare: Nic
) -> None:
    claim = claimed("anew", spare)
    old = cri.run_pod("anew")
    plugin.kill()
    cri.stop_pod(old.sandbox_id)
    cri.remove_pod(old.sandbox_id)
    new = cri.run_pod("anew")

    plugin.start()

    until_phase("anew", "failed")
    assert "not on the host" in reported().reasons["anew"]
    with pytest.raises(CriError, match=NO_SPEC):
        cri.create_container(new, spec=claim.spec())
    plug(plugin)
    container = container_once_open(cri, new, claim.spec())
    assert spare.cidr in links_in(cri, container)[spare.name]
    remove(cri, new)
    assert_restored(whole)


def test_second_instance_waits_and_takes_over_when_the_first_dies(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    second = Plugin("--resync-period", "0.5")
    pod, container = start_pod(cri, "early", nics[:1])
    served = plugin.log().count("serving")
    try:
        second.start(wait=False)
        wait_until("the second to wait", lambda: "waiting for it to end" in second.log())
        other = assert_usable(cri, "meanwhile", nics[1])
        assert plugin.log().count("serving") == served

        plugin.kill()
        wait_until("the second to serve", lambda: plugin.log().count("serving") > served)

        assert nics[0].cidr in links_in(cri, container)[nics[0].name]
        later = assert_usable(cri, "later", nics[2])
        for sandbox in (pod, other, later):
            remove(cri, sandbox)
        assert_restored(before)
    finally:
        second.stop()


@pytest.mark.every_runtime
def test_runtime_that_delays_plugins_during_a_container_stop_is_logged(
    cri: Cri, absent: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    leisurely = cri.run_pod("leisurely")
    container = cri.run_container(leisurely, spec=ContainerSpec(command=("/bin/sh", "-c", DEAF)))
    wait_until("it to be deaf", lambda: "deaf" in cri.container_log(leisurely))
    with ThreadPoolExecutor() as threads:
        stopped = threads.submit(cri.stop_container, container, grace_s=GRACE_S)
        try:
            wait_until("its stop to begin", lambda: "SIGTERM" in cri.container_log(leisurely))
            if delays := version() >= (2, 0):
                absent.start(wait=False)
                wait_until("the warning", lambda: LATE_LIST in absent.since())
            else:
                absent.start()
        finally:
            kill_deaf()
        stopped.result()
    wait_until("the plugin to serve", lambda: "serving" in absent.since())

    assert (LATE_LIST in absent.since()) is delays
    remove(cri, assert_usable(cri, "after", nics[0]))
    remove(cri, leisurely)
    assert_restored(before)


@pytest.mark.every_runtime
def test_nics_of_pods_lost_by_the_runtime_are_restored(
    runtime: Runtime,
    cri: Cri,
    plugin: Plugin,
    nics: tuple[Nic, ...],
    before: dict[str, object],
) -> None:
    pod, _ = start_pod(cri, "lost", nics[:1])
    runtime.kill()
    end_sandbox(pod)
    with forgetful_disk():
        runtime.start(runtime.options)

        until_phase("lost", "restored")

        assert nics[0].cidr in ip("addr", "show", nics[0].name)
        assert not is_open("lost")
        runtime.stop()
    runtime.start(runtime.options)
    remove(cri, pod)
    assert_restored(before)


@contextmanager
def forgetful_disk() -> Iterator[None]:
    """Hide the earlier files of the runtime from it."""
    directories = ("/var/lib/containerd", "/run/containerd")
    for directory in directories:
        subprocess.run(("mount", "-t", "tmpfs", "none", directory), check=True)
    yield
    for directory in directories:
        subprocess.run(("umount", "--lazy", directory), check=True)


def end_sandbox(pod: Pod) -> None:
    """Kill all processes of a sandbox, as the OOM killer does."""
    for status in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = status.read_bytes().split(b"\0")
        except OSError:
            continue
        if (
            arguments[0].endswith(b"containerd-shim-runc-v2")
            and pod.sandbox_id.encode() in arguments
        ):
            shim = int(status.parent.name)
            children = Path(f"/proc/{shim}/task/{shim}/children").read_text().split()
            for process in (shim, *map(int, children)):
                os.kill(process, signal.SIGKILL)


# ------------------------------------------------------------------- the device


def test_nic_renamed_and_addressed_by_its_pod_stays_there_and_is_restored(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    claim = claimed("renamed", nics[0])
    pod = cri.run_pod("renamed")
    spec = ContainerSpec(cdi_devices=claim.cdi_ids, capabilities=("NET_ADMIN",))
    container = cri.run_container(pod, spec=spec)
    disguise = "name mine address 02:00:00:00:66:66"
    change = f"ip link set {nics[0].name} down && ip link set {nics[0].name} {disguise}"
    assert cri.exec(container, "/bin/sh", "-c", change).exit_code == 0
    plugin.kill()

    plugin.start()  # it looks at everything before it serves

    wait_swept(plugin)
    assert recorded("renamed")["phase"] == "attached"
    assert is_open("renamed")
    assert "mine" in links_in(cri, container)
    remove(cri, pod)
    assert_restored(before)


def wait_swept(plugin: Plugin) -> None:
    """Return after one more resync of the plugin."""
    stray = Path("/var/run/cdi/dra.net-stray.json")
    stray.write_text("{}")
    wait_until("a reconcile", lambda: not stray.exists())


def test_nic_renamed_on_the_host_is_refused_until_it_has_its_name(
    cri: Cri, plugin: Plugin, whole: dict[str, object], spare: Nic
) -> None:
    claim = claimed("misnamed", spare)
    ip("link", "set", spare.name, "name", "elsewhere")

    refused(cri, "misnamed", rf"{spare.name}\) is not on the host")

    assert "not on the host" in reported().reasons["misnamed"]
    ip("link", "set", "elsewhere", "name", spare.name)
    pod = cri.run_pod("misnamed")
    container = cri.run_container(pod, spec=claim.spec())
    assert spare.cidr in links_in(cri, container)[spare.name]
    remove(cri, pod)
    assert_restored(whole)


def test_nic_deleted_in_its_pod_closes_the_gate_until_a_new_one_appears(
    cri: Cri, plugin: Plugin, whole: dict[str, object], spare: Nic
) -> None:
    pod, _ = start_pod(cri, "nicless", [spare])
    spec = ContainerSpec(cdi_devices=cdi_of("nicless"))

    ip("-n", netns_of(cri, pod), "link", "del", spare.name)

    until_phase("nicless", "failed")
    assert "neither on the host nor in the pod" in reported().reasons["nicless"]
    with pytest.raises(CriError, match=NO_SPEC):
        cri.create_container(pod, "again", spec)
    plug(plugin)
    wait_until("the gate to open", lambda: is_open("nicless"))
    again = cri.run_container(pod, "again", spec)
    assert spare.cidr in links_in(cri, again)[spare.name]
    remove(cri, pod)
    assert_restored(whole)


def test_nic_deleted_permanently_leaves_no_record_and_no_namespace(
    cri: Cri, plugin: Plugin, whole: dict[str, object], spare: Nic
) -> None:
    pod, _ = start_pod(cri, "robbed", [spare])
    ip("-n", netns_of(cri, pod), "link", "del", spare.name)
    until_phase("robbed", "failed")

    remove(cri, pod)

    until_forgotten("robbed")
    # A look that is under way has its own descriptor, for milliseconds.
    wait_until("the namespace to be let go", lambda: not held_namespaces(plugin))
    plug()
    remove(cri, assert_usable(cri, "heir", spare))
    assert_restored(whole)


def test_nic_removed_from_its_pod_by_hand_is_attached_again(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    pod, container = start_pod(cri, "plundered", nics[:1])

    ip("-n", netns_of(cri, pod), "link", "set", nics[0].name, "netns", "1")

    wait_until(
        "the NIC to be back",
        lambda: nics[0].cidr in links_in(cri, container).get(nics[0].name, ()),
    )
    wait_until("the gate to be open", lambda: is_open("plundered"))
    remove(cri, pod)
    assert_restored(before)


def test_nic_with_a_taken_name_is_restored_after_the_name_is_free(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    pod, _ = start_pod(cri, "ousted", nics[:1])
    ip("link", "add", nics[0].name, "type", "bridge")

    remove(cri, pod)

    assert recorded("ousted")["phase"] == "detaching"
    assert f"interface {nics[0].name} is called dra" in reported().reasons["ousted"]
    plugin.kill()
    plugin.start()  # the namespace is gone, and the NIC is on the host
    ip("link", "del", nics[0].name, "type", "bridge")
    until_forgotten("ousted")
    assert_restored(before)


def test_foreign_link_of_the_same_name_is_unchanged_after_the_loss_of_the_nic(
    cri: Cri, plugin: Plugin, whole: dict[str, object], spare: Nic
) -> None:
    pod, _ = start_pod(cri, "late", [spare])
    ip("link", "add", spare.name, "type", "bridge")
    ip("link", "set", spare.name, "up")
    settled()
    shown = link_state(spare.name)
    plugin.kill()
    remove(cri, pod)  # the NIC goes with the namespace

    plugin.start()

    until_forgotten("late")
    assert link_state(spare.name) == shown


def link_state(name: str) -> str:
    """Return the state of a link, without lifetimes and counters."""
    return ip("-o", "-d", "addr", "show", "dev", name) + ip("route", "show", "dev", name)
