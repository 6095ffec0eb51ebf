"""Tests in this directory run inside the node in a box: hack/test vm."""

from pathlib import Path

import pytest

from tests.box.attach import absent, plugin
from tests.box.cri import Cri
from tests.box.fixtures import containerd, cri, runtime
from tests.box.nics import Nic, dress, host_state, ip, settled
from tests.box.waiting import wait_until

__all__ = ["absent", "containerd", "cri", "plugin", "runtime"]

IGB = Path("/sys/bus/pci/drivers/igb")


@pytest.fixture(scope="session")
def functions() -> tuple[Path, ...]:
    """Return eight virtual functions, one on each NIC: four on each NUMA node."""
    made: list[Path] = []
    for nic in sorted(IGB.glob("0000:*")):
        uplink = next((nic / "net").iterdir()).name
        ip("link", "set", uplink, "up")
        (nic / "sriov_numvfs").write_text("1")
        made.append((nic / "virtfn0").resolve())
    for function in made:
        wait_until("the VF to have a netdev", lambda f=function: list(f.glob("net/*")), 60)  # type: ignore[misc]
    return tuple(made)


@pytest.fixture(scope="session")
def nics(functions: tuple[Path, ...]) -> tuple[Nic, ...]:
    """Return the virtual functions' NICs, with addresses, routes and rules on the host."""
    made: list[Nic] = []
    for number, function in enumerate(functions):
        name = next((function / "net").iterdir()).name
        nic = Nic(name, f"10.{100 + number}.0.5/24")
        dress(nic, number)
        made.append(nic)
    return tuple(made)


@pytest.fixture
def before(cri: Cri, nics: tuple[Nic, ...]) -> dict[str, object]:
    """Return the host's state once the runtime's bridge exists and addresses have settled."""
    settled()
    return host_state()
