"""`verify` between two machines: the healthy pair passes, and each fault fails the right check.

Each machine stands for a pod with two NICs on two rails. `hack/prove verify` runs all
faults, and 20 healthy runs.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from dra_shim.verify.report import as_text
from dra_shim.verify.types import Outcome
from tests.system.vm_pair.faults import FAULTS, Pair, first_nic, pair, rails_at_once, tools, whole

__all__ = ["pair", "tools"]

IN_CI = (
    *("smaller mtu in the path", "loss", "slow link", "firewall", "no gid", "no nic"),
    "little locked memory",
)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Have some faults and one healthy run; with --prove, all faults and 20 healthy runs."""
    prove = metafunc.config.getoption("--prove")
    if "fault" in metafunc.fixturenames:
        metafunc.parametrize("fault", FAULTS if prove else IN_CI)
    if "run" in metafunc.fixturenames:
        metafunc.parametrize("run", range(20 if prove else 1))


def test_healthy_pair_passes(pair: Pair, run: int) -> None:
    lines = pair.verify(whole, exclusive=True)

    report = "\n".join(as_text(lines, verbose=True))
    bad = {line.check for line in lines if line.outcome is not Outcome.PASSED}
    assert (bad, pair.failed(lines)) == (set(), set()), report
    checks = {line.check for line in lines}
    assert checks >= {"link", "mtu", "gid", "memlock", "isolation", "route", "reach", "path mtu"}
    assert checks >= {"loss", "tcp", "rping", "write", "latency"}


def test_fault_fails_its_check_with_its_remedy(pair: Pair, fault: str) -> None:
    assert FAULTS[fault].expected in FAULTS[fault].found(pair)


def test_packets_on_a_long_path_are_not_reported_as_lost(pair: Pair) -> None:
    delay = "tc qdisc add dev ens1 root netem delay 30ms"
    far = replace(FAULTS["loss"], begin=delay, pings=100, pods=rails_at_once)

    assert far.found(pair) == set()


def test_crossed_rails_are_distinguished_from_missing_networks(pair: Pair) -> None:
    pair.wire(crossed=True)
    try:
        assert pair.failures(rails_at_once) == {("reach", "crossed")}
    finally:
        pair.wire()


def test_rdma_devices_without_a_claim_are_reported(pair: Pair) -> None:
    lines = pair.verify(first_nic, exclusive=True)

    assert {line.check for line in lines if line.outcome is Outcome.FAILED} == {"isolation"}
