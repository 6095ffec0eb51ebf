"""Tests of pods on a real runtime, shared by the tiers: attached NICs, and a restored host.

Each tier provides the fixtures `nics` (at least eight, configured by tests.box.nics.configure) and
`before` (the host's state once everything has settled).
"""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.box.claims import Allocated, allocate, release, release_all
from tests.box.cri import ContainerSpec, Cri, CriError, Pod
from tests.box.nics import Nic, changes, host_state, ip
from tests.box.plugin import Plugin
from tests.box.refusals import refused
from tests.box.runtime import Options, Runtime
from tests.box.waiting import wait_until

PATIENT = Options(request_timeout_s=30)  # long enough to be killed in
AS_IT_COMES = Options(request_timeout_s=2)  # every runtime's default
OPEN_S: Final = 90.0  # less than what a test has, which then says what kept the gate closed
# What a claim may ask for, all at once.
SHAPED: Final[dict[str, object]] = {
    "interface": {
        "name": "rdma0",
        "addresses": ["192.168.7.5/24", "fd00:77::5/64"],
        "mtu": 1300,
        "hardwareAddr": "02:00:00:00:77:05",
        "arpIgnore": 1,
        "arpAnnounce": 2,
        "forwarding": True,
    },
    "routes": [
        {"destination": "172.31.0.0/16", "gateway": "192.168.7.1"},
        {"destination": "172.30.0.1/32", "scope": 253, "table": 77},
    ],
    "rules": [{"source": "192.168.7.0/24", "table": 77, "priority": 700}],
    "neighbors": [{"destination": "192.168.7.9", "hardwareAddr": "02:00:00:00:00:0a"}],
    "ethtool": {"features": {"tso": False}},
}
NO_SPEC = r"unresolvable CDI devices dra\.net/nic="


@pytest.fixture
def absent(runtime: Runtime) -> Iterator[Plugin]:
    """Return the plugin, not started. Whatever the test does, no plugin and no claim is left."""
    plugin = Plugin()
    yield plugin
    plugin.stop()
    release_all()


@pytest.fixture
def plugin(absent: Plugin) -> Plugin:
    """Return the plugin, serving."""
    absent.start_alone()
    return absent


def links_in(cri: Cri, container: str) -> dict[str, list[str]]:
    """Return the addresses of the container's links, by name."""
    links: dict[str, list[str]] = {}
    for line in cri.exec(container, "/bin/ip", "-o", "addr").stdout.splitlines():
        _, name, _, address, *_ = line.split()
        links.setdefault(name.partition("@")[0], []).append(address)
    return links


def remove(cri: Cri, pod: Pod) -> None:
    """End the pod as kubelet does, then release its claims."""
    cri.stop_pod(pod.sandbox_id)
    cri.remove_pod(pod.sandbox_id)
    release(pod.uid)


def assert_restored(before: dict[str, object]) -> None:
    """Assert that the host is unchanged, once link-local addresses have settled."""
    try:
        wait_until("the host to be as it was", lambda: host_state() == before)
    except TimeoutError as error:
        raise AssertionError(changes(before, host_state())) from error


def start_pod(cri: Cri, name: str, nics: Sequence[Nic]) -> tuple[Pod, str]:
    """Run a pod with a claim for the NICs and one container that lists it."""
    claim = allocate(name, nics, f"{name}-uid", pod=name)
    pod = cri.run_pod(name)
    return pod, cri.run_container(pod, "main", claim.spec())


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=pytest.mark.every_runtime), 8])
def test_nics_are_attached_with_their_addresses_and_restored(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object], count: int
) -> None:
    pod, container = start_pod(cri, f"many{count}", nics[:count])

    links = links_in(cri, container)
    for nic in nics[:count]:
        assert nic.cidr in links[nic.name]
        assert nic.name not in ip("-o", "link")
    remove(cri, pod)

    assert_restored(before)


@pytest.mark.every_runtime
def test_parameters_of_the_claim_are_applied(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    offloads = segmentation(nics[0].name)
    assert "on" in offloads.values()
    claim = allocate("shaped", nics[:1], "shaped-uid", config=SHAPED)
    pod = cri.run_pod("shaped")
    container = cri.run_container(pod, "main", claim.spec())

    def run_in_pod(command: str) -> str:
        return cri.exec(container, "/bin/sh", "-c", command).stdout

    link = run_in_pod("ip addr show dev rdma0")
    assert "mtu 1300" in link
    assert "02:00:00:00:77:05" in link
    assert "192.168.7.5/24" in link
    assert "fd00:77::5/64" in link
    assert "172.31.0.0/16 via 192.168.7.1" in run_in_pod("ip route")
    assert "172.30.0.1 dev rdma0" in run_in_pod("ip route show table 77")
    assert "700:\tfrom 192.168.7.0/24 lookup 77" in run_in_pod("ip rule")
    netns = str(cri.netns(pod)).rpartition("/")[2]
    assert "02:00:00:00:00:0a PERMANENT" in ip("-n", netns, "neigh", "show", "192.168.7.9")
    conf = "/proc/sys/net/ipv4/conf/rdma0"
    assert run_in_pod(f"cat {conf}/arp_ignore {conf}/arp_announce {conf}/forwarding").split() == [
        "1",
        "2",
        "1",
    ]
    assert {*segmentation("rdma0", str(cri.netns(pod))).values()} == {"off"}
    remove(cri, pod)
    assert_restored(before)
    assert segmentation(nics[0].name) == offloads


def segmentation(name: str, netns: str = "/proc/self/ns/net") -> dict[str, str]:
    """Return what ethtool says of a link's TCP segmentation offloads: on or off, by feature."""
    result = subprocess.run(
        ("nsenter", f"--net={netns}", "ethtool", "-k", name),
        check=True,
        capture_output=True,
        text=True,
    )
    rows = (line.strip().split(": ", 1) for line in result.stdout.splitlines() if ": " in line)
    return {key: value.split()[0] for key, value in rows if key.startswith("tx-tcp")}


@pytest.mark.every_runtime
def test_container_has_its_metadata_and_environment(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...]
) -> None:
    pod, container = start_pod(cri, "told", nics[:1])

    root = "/var/run/kubernetes.io/dra-device-attributes"
    path = f"{root}/resourceclaims/told/nic0/dra.net-metadata.json"
    text = cri.exec(container, "/bin/cat", path).stdout
    environment = cri.exec(container, "/bin/env").stdout.splitlines()

    document = json.loads(text.splitlines()[0])
    device = document["requests"][0]["devices"][0]
    assert device["networkData"]["interfaceName"] == nics[0].name
    assert nics[0].cidr in device["networkData"]["ips"]
    assert device["attributes"]["dra.net/ifName"] == {"string": nics[0].name}
    assert f"DRA_NET_TOLD_NIC0_IFNAMES={nics[0].name}" in environment
    remove(cri, pod)


@pytest.mark.every_runtime
def test_container_that_lists_a_cdi_id_twice_starts(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    """A kubelet that is restarted may append an id that it has (kubernetes/kubernetes#140471)."""
    claim = allocate("twice", nics[:1], "twice-uid", pod="twice")
    pod = cri.run_pod("twice")

    container = cri.run_container(pod, spec=ContainerSpec(cdi_devices=claim.cdi_ids * 2))

    assert nics[0].cidr in links_in(cri, container)[nics[0].name]
    assert "DRA_NET_TWICE_NIC0_IFNAMES" in cri.exec(container, "/bin/env").stdout
    remove(cri, pod)
    assert_restored(before)


@pytest.mark.every_runtime
def test_pod_that_lists_the_claim_only_at_pod_level_gets_its_nic_and_a_warning(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    claim = allocate("loose", nics[:1], "loose-uid", containers=())
    assert "ClaimNotGated" in claim.warnings
    pod = cri.run_pod("loose")

    container = cri.run_container(pod)

    assert nics[0].cidr in links_in(cri, container)[nics[0].name]
    assert "DRA_NET_LOOSE_NIC0_IFNAMES" in cri.exec(container, "/bin/env").stdout
    remove(cri, pod)
    assert_restored(before)


def waiting_pod(cri: Cri, name: str, nics: Sequence[Nic]) -> tuple[Pod, Allocated]:
    """Run a claimed pod whose container must be refused now."""
    claim = allocate(name, nics, f"{name}-uid", pod=name)
    pod = cri.run_pod(name)
    with pytest.raises(CriError, match=NO_SPEC):
        cri.create_container(pod, spec=claim.spec())
    return pod, claim


def container_once_open(cri: Cri, pod: Pod, spec: ContainerSpec) -> str:
    """Create the container as kubelet does, again and again until it is let in, and start it."""
    made: list[str] = []
    refusals = ["none"]

    def container_starts() -> bool:
        try:
            made.append(cri.create_container(pod, spec=spec))
        except CriError as error:
            refusals.append(str(error))
        return bool(made)

    try:
        wait_until("the gate to open", container_starts, OPEN_S)
    except TimeoutError as error:
        specs = sorted(path.name for path in Path("/var/run/cdi").glob("*"))
        raise TimeoutError(f"{error}; specs {specs}; the last refusal: {refusals[-1]}") from None
    cri.start_container(made[0])
    return made[0]


@pytest.mark.every_runtime
def test_container_waits_until_the_stopped_plugin_is_back(
    cri: Cri, absent: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    pod, claim = waiting_pod(cri, "absent", nics[:1])

    absent.start()
    container = container_once_open(cri, pod, claim.spec())

    assert nics[0].cidr in links_in(cri, container)[nics[0].name]
    remove(cri, pod)
    assert_restored(before)


@pytest.mark.every_runtime
def test_container_waits_after_the_plugin_was_killed_in_the_hook(
    cri: Cri,
    runtime: Runtime,
    absent: Plugin,
    nics: tuple[Nic, ...],
    before: dict[str, object],
) -> None:
    runtime.restart(PATIENT)
    absent.start()
    claim = allocate("killed", nics[:2], "killed-uid")
    absent.freeze()
    pods: list[Pod] = []
    hook = threading.Thread(target=lambda: pods.append(cri.run_pod("killed")))
    hook.start()
    wait_until("the hook to be called", lambda: bytes_waiting(absent.pid))
    absent.kill()
    hook.join()

    with pytest.raises(CriError, match=NO_SPEC):
        cri.create_container(pods[0], spec=claim.spec())
    absent.start()
    container = container_once_open(cri, pods[0], claim.spec())

    assert nics[1].cidr in links_in(cri, container)[nics[1].name]
    remove(cri, pods[0])
    assert_restored(before)


def bytes_waiting(pid: int) -> bool:
    """Whether a frozen process has unread bytes on a Unix stream socket of its own."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        target = str(link.readlink())
        if target.startswith("socket:"):
            inodes.add(target[8:-1])
    shown = subprocess.run(("ss", "-xneH"), capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in shown.splitlines()]
    return any(int(row[2]) > 0 and inodes & set(row) for row in rows)


@pytest.mark.every_runtime
def test_container_waits_if_the_plugin_exceeds_the_deadline(
    cri: Cri,
    runtime: Runtime,
    absent: Plugin,
    nics: tuple[Nic, ...],
    before: dict[str, object],
) -> None:
    runtime.restart(AS_IT_COMES)
    absent.start()
    absent.freeze()
    pod, claim = waiting_pod(cri, "slow", nics[:1])

    absent.thaw()
    container = container_once_open(cri, pod, claim.spec())

    assert nics[0].cidr in links_in(cri, container)[nics[0].name]
    remove(cri, pod)
    assert_restored(before)


@pytest.mark.every_runtime
def test_plugin_restart_does_not_affect_running_pods(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    pod, container = start_pod(cri, "steady", nics[:1])

    plugin.kill()
    assert nics[0].cidr in links_in(cri, container)[nics[0].name]
    again = cri.run_container(pod, "again", ContainerSpec(cdi_devices=cdi_of("steady")))
    assert nics[0].cidr in links_in(cri, again)[nics[0].name]
    plugin.start()
    assert nics[0].cidr in links_in(cri, container)[nics[0].name]

    remove(cri, pod)
    assert_restored(before)


def cdi_of(claim: str) -> tuple[str, ...]:
    """Return the CDI ids that are open for the claim."""
    path = Path(f"/var/run/cdi/dra.net-{claim}-claim-uid.json")
    spec = json.loads(path.read_text())
    return tuple(f"{spec['kind']}={device['name']}" for device in spec["devices"])


def test_forged_record_for_an_owned_nic_is_refused_with_the_owner(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...]
) -> None:
    pod, _ = start_pod(cri, "owner", nics[:1])
    forge_record("owner", "thief")

    refused(cri, "thief", r"owned by pod default/owner")

    remove(cri, pod)
    release("thief-uid")


def forge_record(owner: str, intruder: str) -> None:
    """Write an allocation of the owner's device to another claim and pod, past dra-shim."""
    directory = Path("/var/lib/dranet-nri/allocations")
    record = (directory / f"{owner}-claim-uid.json").read_text().replace(owner, intruder)
    staged = directory / ".forged"
    staged.write_text(record)
    staged.rename(directory / f"{intruder}-claim-uid.json")


def test_second_pod_on_the_claim_is_refused_with_the_owner(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...]
) -> None:
    pod, _ = start_pod(cri, "first", nics[:1])
    second = cri.run_pod("second")

    with pytest.raises(CriError, match=r"pod default/first owns"):
        cri.create_container(second, spec=ContainerSpec(cdi_devices=cdi_of("first")))

    remove(cri, pod)


@pytest.mark.every_runtime
def test_host_network_pod_with_a_claim_is_refused(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], before: dict[str, object]
) -> None:
    allocate("hostly", nics[:1], "hostly-uid")

    refused(cri, "hostly", "hostNetwork", host_network=True)

    assert nics[0].name in ip("-o", "link")
    release("hostly-uid")
    assert_restored(before)


@pytest.mark.every_runtime
def test_runtime_restart_keeps_the_nics_of_running_pods(
    runtime: Runtime,
    cri: Cri,
    plugin: Plugin,
    nics: tuple[Nic, ...],
    before: dict[str, object],
) -> None:
    pod, container = start_pod(cri, "survivor", nics[:1])

    runtime.kill()
    runtime.start(runtime.options)
    wait_until("the plugin to be back", lambda: plugin.since().count("serving") > 1)

    assert nics[0].cidr in links_in(cri, container)[nics[0].name]
    remove(cri, pod)
    assert_restored(before)


def cycle(cri: Cri, nics: Sequence[Nic], rounds: int) -> None:
    """Start and end a pod with the NICs, again and again."""
    for number in range(rounds):
        pod, container = start_pod(cri, f"cycle{number}", nics)
        assert nics[0].cidr in links_in(cri, container)[nics[0].name]
        remove(cri, pod)
