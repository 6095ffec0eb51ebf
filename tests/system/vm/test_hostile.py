"""Pods that attack their NIC, on hardware that the kernel returns; hack/prove runs them all."""

import pytest

from tests.box.nics import Nic
from tests.prove.attacks import attack
from tests.prove.hostile import play
from tests.prove.stage import Stage


@pytest.fixture
def stage(nics: tuple[Nic, ...], before: dict[str, object]) -> Stage:
    """Return the host; a lost NIC is lost for the tests that follow."""
    return Stage("vm", nics, lambda: nics)


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
def test_hostile_pod_does_not_change_the_host(stage: Stage, name: str) -> None:
    assert play(stage, attack(name)) is None
