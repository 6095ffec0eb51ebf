"""Hardware that is removed, returned or recreated, and a clock that jumps."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.box.attach import (
    assert_restored,
    cdi_of,
    container_once_open,
    links_in,
    plugin,
    remove,
    start_pod,
)
from tests.box.cri import ContainerSpec, Cri
from tests.box.nics import FIRST_RULE, IGB, Nic, configure, has_carrier, host_state, ip, settled
from tests.box.plugin import Plugin
from tests.box.refusals import is_open, refused
from tests.box.trouble import (
    absent,
    assert_usable,
    claimed,
    recorded,
    reported,
    until_forgotten,
    until_phase,
)
from tests.box.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

__all__ = ["absent", "plugin"]

PCI = Path("/sys/bus/pci")
YEAR_S = 365 * 86400
UNSPECIFIED = "neither on the host nor in the pod"


def port(number: int) -> Path:
    """Return the PCI device of a physical NIC."""
    return sorted(IGB.glob("0000:*"))[number].resolve()


def netdev(device: Path) -> str:
    """Return the name of the PCI device's interface, "" while it has none."""
    return next((path.name for path in device.glob("net/*")), "")


def function_of(nic: Path) -> Path:
    """Return the PCI device of the NIC's only virtual function."""
    return (nic / "virtfn0").resolve()


def set_functions(nic: Path, count: int) -> None:
    """Give the NIC that many virtual functions."""
    (nic / "sriov_numvfs").write_text(str(count))


@pytest.fixture(scope="module")
def nics() -> Iterator[tuple[Nic, ...]]:
    """Return the virtual functions of two NICs, and a third NIC, with their configuration."""
    ports = [port(number) for number in (0, 1)]
    for nic in ports:
        ip("link", "set", netdev(nic), "up")
        set_functions(nic, 1)
    devices = [*map(function_of, ports), port(7)]
    wait_until("the VFs to have netdevs under their names", lambda: all(map(named, devices)))
    made = tuple(Nic(netdev(device), f"10.{100 + n}.0.5/24") for n, device in enumerate(devices))
    for number, configured in enumerate(made):
        configure(configured, number)
    yield made
    for nic in ports:
        set_functions(nic, 0)
    ip("addr", "flush", "dev", made[2].name)
    ip("link", "property", "del", "dev", made[2].name, "altname", "port-2")
    for number in range(len(made)):
        ip("rule", "del", "priority", str(FIRST_RULE + number))


def named(device: Path) -> bool:
    """Whether the interface of a PCI device has the name that udev gives it."""
    return netdev(device).startswith("en")


@pytest.fixture
def whole(cri: Cri, nics: tuple[Nic, ...]) -> dict[str, object]:
    """Return the host's state once addresses have settled."""
    settled()
    return host_state()


def bind(driver: str, function: Path, verb: str = "bind") -> None:
    """Bind the driver to a PCI device, or unbind it."""
    (PCI / "drivers" / driver / verb).write_text(function.name)


def until_whole(cri: Cri, claim: str, container: str, nic: Nic) -> None:
    """Wait until the NIC is in the pod with its address, and its gate open."""
    wait_until(f"the gate of {claim} to open", lambda: is_open(claim))
    assert nic.cidr in links_in(cri, container)[nic.name]


def assert_missing(claim: str) -> None:
    """Assert that the claim's NIC is reported as missing, and its gate closed."""
    until_phase(claim, "failed")
    assert UNSPECIFIED in reported().reasons[claim]
    assert not is_open(claim)


def recorded_mac(claim: str) -> str:
    """Return the NIC's address in the claim's record."""
    devices = recorded(claim)["devices"]
    assert isinstance(devices, list)
    return str(devices[0]["mac"])


# ------------------------------------------------------------------- the device


@pytest.mark.emulated
def test_nic_unbound_in_a_pod_is_attached_again_after_the_bind(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], whole: dict[str, object]
) -> None:
    function = function_of(port(0))
    pod, container = start_pod(cri, "unbound", nics[:1])

    bind("igbvf", function, "unbind")

    assert_missing("unbound")
    bind("igbvf", function)
    until_whole(cri, "unbound", container, nics[0])
    assert recorded_mac("unbound") in cri.exec(container, "/bin/ip", "link").stdout
    remove(cri, pod)
    assert_restored(whole)


@pytest.mark.emulated
def test_nic_unbound_before_its_pod_starts_is_refused_until_it_is_bound(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...]
) -> None:
    function = function_of(port(1))
    claim = claimed("bare", nics[1])
    bind("igbvf", function, "unbind")

    refused(cri, "bare", r"is not on the host: its driver was unbound")

    bind("igbvf", function)
    wait_until("the VF to have its name", lambda: named(function))
    ip("rule", "del", "priority", str(FIRST_RULE + 1))  # it outlived the link
    configure(nics[1], 1)
    wait_until("its carrier", lambda: has_carrier(nics[1].name))
    settled()
    configured = host_state()  # it has an address of its own again
    pod = cri.run_pod("bare")
    container = cri.run_container(pod, spec=claim.spec())
    assert nics[1].cidr in links_in(cri, container)[nics[1].name]
    remove(cri, pod)
    assert_restored(configured)


@pytest.mark.every_runtime
@pytest.mark.emulated
def test_recreated_virtual_function_replaces_the_one_in_the_pod(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], whole: dict[str, object]
) -> None:
    pod, container = start_pod(cri, "recreated", nics[:1])

    set_functions(port(0), 0)

    assert_missing("recreated")
    set_functions(port(0), 1)
    until_whole(cri, "recreated", container, nics[0])
    remove(cri, pod)
    until_forgotten("recreated")
    remove(cri, assert_usable(cri, "heir", nics[0]))
    assert_restored(whole)


@pytest.mark.emulated
def test_nic_removed_during_the_end_of_its_pod_is_restored_on_return(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], whole: dict[str, object]
) -> None:
    device = port(7)
    pod, _ = start_pod(cri, "removed", nics[2:])

    (device / "remove").write_text("1")

    assert_missing("removed")
    remove(cri, pod)
    assert recorded("removed")["phase"] == "detaching"
    (PCI / "rescan").write_text("1")
    until_forgotten("removed")
    remove(cri, assert_usable(cri, "after", nics[2]))
    assert_restored(whole)


def test_nic_with_a_taken_name_returns_under_a_temporary_one_until_it_is_free(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], whole: dict[str, object]
) -> None:
    pod, _ = start_pod(cri, "ousted", nics[:1])
    ip("link", "add", nics[0].name, "type", "dummy")

    remove(cri, pod)

    assert recorded("ousted")["phase"] == "detaching"
    assert netdev(function_of(port(0))).startswith("dra")
    ip("link", "del", nics[0].name)
    until_forgotten("ousted")
    assert_restored(whole)


def test_sandbox_recreated_while_the_plugin_is_down_gets_the_nic(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], whole: dict[str, object]
) -> None:
    old, _ = start_pod(cri, "anew", nics[:1])
    spec = ContainerSpec(cdi_devices=cdi_of("anew"))
    plugin.kill()
    cri.stop_pod(old.sandbox_id)
    cri.remove_pod(old.sandbox_id)
    new = cri.run_pod("anew")

    plugin.start()

    container = container_once_open(cri, new, spec)
    assert nics[0].cidr in links_in(cri, container)[nics[0].name]
    remove(cri, new)
    assert_restored(whole)


# ------------------------------------------------------------------- the clock


@contextmanager
def restored_clock() -> Iterator[None]:
    """Set the clock right in the end."""
    wall, boot = time.time(), time.clock_gettime(time.CLOCK_BOOTTIME)
    try:
        yield
    finally:
        passed = time.clock_gettime(time.CLOCK_BOOTTIME) - boot
        time.clock_settime(time.CLOCK_REALTIME, wall + passed)


def jump(seconds: float) -> None:
    """Let the wall clock jump."""
    time.clock_settime(time.CLOCK_REALTIME, time.time() + seconds)


def lifetime(nic: Nic, cidr: str) -> int:
    """Return for how many seconds more the address of the NIC is valid."""
    (link,) = json.loads(ip("-j", "addr", "show", "dev", nic.name))
    address = cidr.partition("/")[0]
    return next(
        int(shown["valid_life_time"]) for shown in link["addr_info"] if shown["local"] == address
    )


@pytest.mark.every_runtime
def test_clock_jump_changes_neither_pods_nor_remaining_lifetimes(
    cri: Cri, plugin: Plugin, nics: tuple[Nic, ...], whole: dict[str, object]
) -> None:
    leased = "10.77.0.5/24"
    ip("addr", "add", leased, "dev", nics[0].name, "valid_lft", "5000", "preferred_lft", "4000")
    began = time.monotonic()
    with restored_clock():
        jump(YEAR_S)
        pod, container = start_pod(cri, "timeless", nics[:1])
        assert {nics[0].cidr, leased} <= set(links_in(cri, container)[nics[0].name])
        jump(-2 * YEAR_S)
        remove(cri, pod)
        until_forgotten("timeless")
        left = lifetime(nics[0], leased)

    passed = time.monotonic() - began
    assert 5000 - passed - 5 <= left <= 5000
    ip("addr", "del", leased, "dev", nics[0].name)
    assert_restored(whole)
