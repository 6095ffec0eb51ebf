"""RDMA devices that stay on the host: shared by all pods, not movable, or asked for in vain."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box import rdma
from tests.box.attach import assert_restored, remove
from tests.box.claims import allocate, release
from tests.box.cri import Cri
from tests.box.nics import Nic, ip, make_functions, remove_functions
from tests.box.plugin import Plugin, status
from tests.box.rdma import Driver, Endpoint, soft_rdma
from tests.box.rdma_pods import (
    USER,
    Hca,
    claim_rails,
    links_on_host,
    make_hcas,
    registered,
    run_container,
    serving,
    start_rdma_pod,
    status_of_process,
)
from tests.box.refusals import refused
from tests.box.target import NODE, checked
from tests.box.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

FUNCTIONS = 2
IPC_LOCK = 14  # linux/capability.h
MEBIBYTE = 1 << 20
GIBIBYTE = 1 << 30


@pytest.fixture(scope="module")
def functions() -> Iterator[tuple[Path, ...]]:
    """Return virtual functions of as many NICs as are needed."""
    yield make_functions(FUNCTIONS)
    remove_functions(FUNCTIONS)


@pytest.fixture
def movable_rdma() -> Iterator[None]:
    """Load soft-RoCE that lives on when its NIC moves, as hardware does; every pod sees it."""
    with soft_rdma(Driver.MOVABLE, "shared"):
        yield


@pytest.fixture
def shared(nics: tuple[Nic, ...], movable_rdma: None) -> tuple[Hca, ...]:
    """Return NICs with RDMA devices that all namespaces share."""
    return make_hcas(nics)


@pytest.fixture
def unmovable(nics: tuple[Nic, ...]) -> Iterator[tuple[Hca, ...]]:
    """Return NICs with RDMA devices that should move, but whose driver can't."""
    with soft_rdma(Driver.STOCK, "exclusive"):
        yield make_hcas(nics)


@pytest.fixture
def software_rdma(nics: tuple[Nic, ...], stock_rdma: None) -> tuple[Hca, ...]:
    """Return NICs with RDMA devices of the kernel's own soft-RoCE, that all namespaces share."""
    return make_hcas(nics)


def warnings() -> set[str]:
    """Return the warnings of `dranet-nri status`."""
    return set(json.loads(checked(NODE, "dranet-nri", "status", "--output", "json"))["warnings"])


def test_pods_with_shared_rdma_devices_reach_each_other(
    shared: tuple[Hca, ...], cri: Cri, plugin: Plugin, before: dict[str, object]
) -> None:
    near = start_rdma_pod(cri, "near", shared[:1], 1)
    far = start_rdma_pod(cri, "far", shared[1:], 2)

    assert rdma.ib_write_bw(server=near.end(), client=far.end(), iterations=50) > 0
    rdma.rping(server=near.end(), client=far.end())
    assert rdma.links().keys() == rdma.links(near.container).keys() == links_on_host(shared).keys()
    assert [warning for warning in warnings() if "shared mode, which isolates nothing" in warning]
    files = checked(near.container, "ls", "/dev/infiniband").split()
    assert {f"/dev/infiniband/{file}" for file in files} == set(rdma.device_files(shared[0].device))

    for pod in (near, far):
        remove(cri, pod.pod)
    assert_restored(before)
    assert rdma.links() == links_on_host(shared)


def test_two_pods_on_one_device_pass_traffic(
    shared: tuple[Hca, ...], cri: Cri, plugin: Plugin, before: dict[str, object]
) -> None:
    hca = shared[0]
    pods, ends = [], []
    for name in ("one", "two"):
        claim = allocate(name, [hca.nic], f"{name}-uid", pod=name, shared="true")
        pods.append(pod := cri.run_pod(name))
        container = run_container(cri, pod, claim)
        address = hca.nic.cidr.partition("/")[0]
        ends.append(Endpoint(container, hca.device, address, reached_at=cri.pod_address(pod)))

    assert rdma.ib_write_bw(server=ends[0], client=ends[1], iterations=50) > 0
    assert rdma.ib_write_bw(server=ends[1], client=ends[0], iterations=50) > 0
    assert rdma.contexts() == [], "the plugin holds a device open"
    for end in ends:
        status = status_of_process(end.target)
        assert status["Uid"].split() == [str(USER)] * 4
        assert not int(status["CapBnd"], 16) >> IPC_LOCK & 1
        assert registered(end.target, hca.device, GIBIBYTE) == GIBIBYTE
    without = run_container(cri, pods[0], None, "without")
    assert without.run("ls", "/dev/infiniband").exit_code != 0
    assert rdma.links() == links_on_host(shared)


def test_memory_above_the_limit_of_the_runtime_requires_the_memlock_option(
    shared: tuple[Hca, ...], cri: Cri
) -> None:
    with serving(cri, "--memlock", "keep"):
        pod = start_rdma_pod(cri, "limited", shared[:1], 1)
        device = shared[0].device

        assert registered(pod.container, device, MEBIBYTE) == MEBIBYTE
        with pytest.raises(RuntimeError, match="Cannot allocate memory"):
            registered(pod.container, device, GIBIBYTE)


def test_required_exclusive_mode_is_refused_on_a_shared_node_with_the_remedy(
    shared: tuple[Hca, ...], cri: Cri, before: dict[str, object]
) -> None:
    with serving(cri, "--rdma-mode", "exclusive"):
        claim_rails("exclusive", shared[:1], 1)

        message = refused(cri, "exclusive", "the kernel is in shared mode")

        assert "boot the node with 'options ib_core netns_mode=0'" in message
        assert "--rdma-mode=auto" in message
        assert_restored(before)
        assert rdma.links() == links_on_host(shared)


def test_rdma_name_is_refused_in_shared_mode(
    shared: tuple[Hca, ...], cri: Cri, plugin: Plugin, before: dict[str, object]
) -> None:
    claim_rails("renamed", shared[:1], 1, rdma_name="hca0")

    refused(cri, "renamed", r"rdma\.name")

    assert_restored(before)
    assert rdma.links() == links_on_host(shared)


def test_software_rdma_device_lost_by_a_move_is_refused_and_can_be_shared(
    software_rdma: tuple[Hca, ...], cri: Cri, plugin: Plugin, before: dict[str, object]
) -> None:
    hca = software_rdma[0]
    claim_rails("software", software_rdma[:1], 1)

    message = refused(cri, "software", "is software")

    assert f"RDMA device {hca.device} is software (soft-RoCE, siw), and is deleted" in message
    assert "let pods share the device (dra-shim run --shared)" in message
    assert_restored(before)
    assert rdma.links() == links_on_host(software_rdma)
    release("software-uid")
    claim = allocate("sharing", [hca.nic], "sharing-uid", pod="sharing", shared="true")
    pod = cri.run_pod("sharing")
    files = checked(run_container(cri, pod, claim), "ls", "/dev/infiniband").split()
    assert {f"/dev/infiniband/{file}" for file in files} == set(rdma.device_files(hca.device))
    remove(cri, pod)
    assert_restored(before)
    assert rdma.links() == links_on_host(software_rdma)


def test_software_rdma_device_is_lost_when_its_interface_changes_namespace(
    stock_rdma: None,
) -> None:
    """The reason for the refusal; it is unnecessary on a kernel on which this fails."""
    ip("netns", "add", "space")
    ip("link", "add", "dummy7", "type", "dummy")
    try:
        rdma.add_link("soft7", "dummy7")
        ip("link", "set", "dummy7", "netns", "space")
        wait_until("the device to end", lambda: rdma.links() == {})
        ip("-n", "space", "link", "set", "dummy7", "netns", "1")
        assert rdma.links() == {}
        ip("link", "del", "dummy7")
    finally:
        ip("netns", "del", "space")


def test_immovable_rdma_device_is_refused_and_stays_with_its_nic(
    unmovable: tuple[Hca, ...], cri: Cri, plugin: Plugin, before: dict[str, object]
) -> None:
    claim_rails("stuck", unmovable[:1], 1)

    message = refused(cri, "stuck", "its driver cannot move devices between namespaces")

    assert unmovable[0].device in message
    assert "options ib_core netns_mode=1" in message
    assert_restored(before)
    assert rdma.links() == links_on_host(unmovable)
    (row,) = json.loads(checked(NODE, "dranet-nri", "status", "--output", "json"))["devices"]
    assert row["state"] == "restored"
    assert "cannot move devices between namespaces" in status(row["device"])["reason"]
