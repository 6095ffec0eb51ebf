"""RDMA devices come into pods with their NICs; an ordinary user's program can work with them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.box import rdma
from tests.box.cri import Cri
from tests.box.nics import dress_functions, ip, make_functions, remove_functions
from tests.box.rdma import Driver, soft_rdma
from tests.box.rdma_pods import (
    USER,
    RdmaPod,
    make_hcas,
    registered,
    run_container,
    serving,
    start_rdma_pod,
    status_of_process,
)
from tests.box.runtime import Runtime
from tests.box.target import NODE, checked

pytestmark = pytest.mark.timeout(600)

FUNCTIONS = 4
IPC_LOCK = 14  # linux/capability.h
GIBIBYTE = 1 << 30


@pytest.fixture(scope="module")
def movable_rdma() -> Iterator[None]:
    """Load soft-RoCE whose devices move, for all tests of this module."""
    with soft_rdma(Driver.MOVABLE, "exclusive"):
        yield


@pytest.fixture(scope="module")
def functions() -> Iterator[tuple[Path, ...]]:
    """Return virtual functions of as many NICs as are needed."""
    yield make_functions(FUNCTIONS)
    remove_functions(FUNCTIONS)


@pytest.fixture(scope="module")
def pods(
    running: Runtime, movable_rdma: None, functions: tuple[Path, ...]
) -> Iterator[tuple[RdmaPod, RdmaPod]]:
    """Return two pods of two NICs each. A third container could start in them."""
    hcas = make_hcas(dress_functions(functions))
    with Cri() as cri, serving(cri):
        yield (
            start_rdma_pod(cri, "near", hcas[:2], 1, containers=("main", "other")),
            start_rdma_pod(cri, "far", hcas[2:], 2),
        )


@pytest.fixture
def near(pods: tuple[RdmaPod, RdmaPod]) -> RdmaPod:
    """Return one of the pods."""
    return pods[0]


def test_pod_sees_exactly_its_own_rdma_devices(pods: tuple[RdmaPod, RdmaPod]) -> None:
    for pod in pods:
        names = {name for name, _ in pod.devices}
        files = {file for name in names for file in rdma.device_files(name)}

        assert rdma.links(pod.container) == {name: name.removeprefix("rxe_") for name in names}
        assert set(checked(pod.container, "ls", "/sys/class/infiniband").split()) == names
        found = checked(pod.container, "ls", "/dev/infiniband").split()
        assert {f"/dev/infiniband/{file}" for file in found} == files
        opened = checked(pod.container, "ibv_devinfo")
        assert opened.count("hca_id:") == len(names)
        assert all(name in opened for name in names)


def test_host_sees_no_rdma_device_of_the_pods(pods: tuple[RdmaPod, RdmaPod]) -> None:
    netdevs = {name.removeprefix("rxe_") for pod in pods for name, _ in pod.devices}

    assert rdma.links() == {}
    assert "No IB devices" in NODE.run("ibv_devinfo").stderr
    assert not netdevs & {line.split(": ")[1] for line in ip("-o", "link").splitlines()}


@pytest.mark.parametrize("rail", [0, 1])
def test_rdma_writes_pass_between_pods_on_each_rail(
    pods: tuple[RdmaPod, RdmaPod], rail: int
) -> None:
    near, far = (pod.end(rail) for pod in pods)

    assert rdma.ib_write_bw(server=near, client=far, iterations=50) > 0


def test_rdma_cm_connects_the_pods(pods: tuple[RdmaPod, RdmaPod]) -> None:
    near, far = (pod.end() for pod in pods)

    rdma.rping(server=near, client=far)


def test_rdma_program_runs_without_privileges(near: RdmaPod) -> None:
    status = status_of_process(near.container)

    assert status["Uid"].split() == [str(USER)] * 4
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapAmb")} == {0}
    assert not int(status["CapBnd"], 16) >> IPC_LOCK & 1


def test_rdma_program_registers_a_gibibyte_without_ipc_lock(near: RdmaPod) -> None:
    assert registered(near.container, near.devices[0][0], GIBIBYTE) == GIBIBYTE


def test_second_container_with_the_claim_has_the_same_device_files(near: RdmaPod) -> None:
    other = run_container(near.container.cri, near.pod, near.claim, "other")

    files = [checked(container, "ls", "/dev/infiniband") for container in (near.container, other)]
    assert files[0] == files[1]


def test_container_without_the_claim_has_no_device_files(near: RdmaPod) -> None:
    third = run_container(near.container.cri, near.pod, None, "third")

    assert third.run("ls", "/dev/infiniband").exit_code != 0
    assert "RDMA" not in checked(third, "env")
    assert checked(third, "sh", "-c", "ulimit -l").strip() != "unlimited"
