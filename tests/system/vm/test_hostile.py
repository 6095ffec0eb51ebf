"""Pods that attack their NIC, on hardware that the kernel returns; hack/prove runs them all."""

import pytest

from tests.box.nics import Nic
from tests.prove.attacks import attack
from tests.prove.environment import HostEnvironment
from tests.prove.hostile import run_row


@pytest.fixture
def environment(nics: tuple[Nic, ...], before: dict[str, object]) -> HostEnvironment:
    """Return the host; a lost NIC is lost for the tests that follow."""
    return HostEnvironment("vm", nics, lambda: nics)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "name",
    [
        "altnames on the NIC",
        "names that are no UTF-8",
        "a bond",
        "sysctls",
        "an impostor with the NIC's name",
        "moved away, an impostor in its place",
    ],
)
def test_hostile_pod_does_not_change_the_host(environment: HostEnvironment, name: str) -> None:
    assert run_row(environment, attack(name)) is None
