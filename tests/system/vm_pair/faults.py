"""Faults between two machines that `verify` must find, and the machines as its pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pytest

from dra_shim.verify.measure import MeasurementPlan, measure
from dra_shim.verify.pair_checks import MeasureDurations
from dra_shim.verify.remedies import CAUSES
from dra_shim.verify.thresholds import Thresholds
from dra_shim.verify.types import ClaimedNic, CommandResult, Fabric, Line, Outcome, WorkerPod
from tests.box import rdma
from tests.box.peer import Peer
from tests.box.rdma import Driver, soft_rdma
from tests.box.target import NODE, ExecTarget, checked
from tests.box.waiting import wait_until
from tests.system.vm_pair.wire import at_once

MTU: Final = 1500
RAILS: Final = ("ens1", "ens2")
# Both rails are on one wire, as two ports of a card are, so `verify` measures them in turn. RDMA
# writes on both at once can end all traffic on it: this happened once in 14 runs on a busy machine.
WIRE: Final = "wire"
# The wire is emulated: these thresholds are far below its rates, and far above those of the faults.
# It slows no sender down, so RDMA writes overflow the receiver: they have no limit.
THRESHOLDS: Final = Thresholds({"loss": 0.2, "tcp": 0.02, "write": 0, "latency": 1_000_000})
PACE: Final = MeasureDurations(pings=500, pings_s=20, seconds=1, reads=50, rounds=1)
# Image `jobs` has iperf3, and the machine has the libraries of the same suite.
IPERF3: Final = """#!/bin/sh
LD_LIBRARY_PATH=/srv/usr/lib/x86_64-linux-gnu exec /srv/usr/bin/iperf3 "$@"
"""
# All NICs of the machines are on one wire. A NIC takes only frames from the NIC of its own rail.
SET_UP: Final = """
for rail in 0 1; do
    nic=ens$((rail + 1))
    ip link set $nic mtu 1500 up
    ip addr add 10.9.$rail.$1/24 dev $nic
done
echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
"""
TAKE_DOWN: Final = """
nft delete table netdev rails
for nic in ens1 ens2; do ip addr flush dev $nic; ip link set $nic down; done
"""
# Arguments: the MAC addresses of the other machine that ens1 and ens2 must not receive.
SEPARATE: Final = """
nft delete table netdev rails 2>/dev/null || true
nft add table netdev rails
for nic in ens1 ens2; do
    nft add chain netdev rails $nic "{ type filter hook ingress device $nic priority -10; }"
    nft add rule netdev rails $nic ether saddr $1 drop
    shift
done
ip neigh flush all
"""

Change = Callable[[WorkerPod], WorkerPod]


def whole(pod: WorkerPod) -> WorkerPod:
    """Return a pod as it is."""
    return pod


def first_nic(pod: WorkerPod) -> WorkerPod:
    """Return a pod with its first NIC only."""
    return replace(pod, nics=pod.nics[:1])


def far_gpu(pod: WorkerPod) -> WorkerPod:
    """Return a pod with a GPU of another NUMA node than its NIC's."""
    return replace(without_rdma(first_nic(pod)), gpu_numa_nodes=(1,))


def without_rdma(pod: WorkerPod) -> WorkerPod:
    """Return a pod whose claim has no RDMA."""
    return replace(pod, nics=tuple(replace(nic, rdma="") for nic in pod.nics))


def rails_at_once(pod: WorkerPod) -> WorkerPod:
    """Return a pod without RDMA, whose NICs are of two cards: both rails are measured together."""
    nics = (replace(nic, card=nic.interface) for nic in without_rdma(pod).nics)
    return replace(pod, nics=tuple(nics))


def without_rdma_one(pod: WorkerPod) -> WorkerPod:
    """Return a pod with its first NIC and no RDMA."""
    return without_rdma(first_nic(pod))


@dataclass(frozen=True, slots=True)
class Pair:
    """The two machines as two pods.

    Attributes:
        targets: where their commands run.
        workers: what `verify` takes them for, with two NICs each.
        prefixes: of all commands on a machine.
    """

    targets: dict[str, ExecTarget]
    workers: tuple[WorkerPod, WorkerPod]
    prefixes: dict[str, Sequence[str]] = field(default_factory=dict)

    def run(self, pod: str, command: Sequence[str], limit_s: float) -> CommandResult:
        """Run a command as `kubectl exec` does in a pod."""
        arguments = ("timeout", f"{limit_s:.0f}", *self.prefixes.get(pod, ()), *command)
        done = self.targets[pod].run(*arguments)
        return CommandResult(done.exit_code, done.stdout, done.stderr)

    def wire(self, *, crossed: bool = False) -> None:
        """Connect the NICs of each rail, or each NIC with the other rail's."""
        macs = {name: macs_of(target) for name, target in self.targets.items()}
        for name, other in (("here", "there"), ("there", "here")):
            events = macs[other] if crossed else macs[other][::-1]
            checked(self.targets[name], "sh", "-ec", SEPARATE, "-", *events)

    def verify(
        self, change: Change, durations: MeasureDurations = PACE, *, exclusive: bool = False
    ) -> list[Line]:
        """Return the lines of a quick run of the pods, changed."""
        plan = MeasurementPlan(THRESHOLDS, durations, exclusive=exclusive)
        workers = [change(pod) for pod in self.workers]
        return measure(workers, self, plan, progress=lambda text: None)

    def failures(self, change: Change, durations: MeasureDurations = PACE) -> set[tuple[str, str]]:
        """Return the failed checks of the pods, changed, with their causes."""
        return self.failed(self.verify(change, durations))

    @staticmethod
    def failed(lines: Sequence[Line]) -> set[tuple[str, str]]:
        """Return the failed checks with their causes."""
        by_meaning = {meaning: cause for cause, (meaning, _) in CAUSES.items()}
        assert all(line.remedy for line in lines if line.outcome is Outcome.FAILED)
        return {
            (line.check, by_meaning[line.meaning])
            for line in lines
            if line.outcome is Outcome.FAILED
        }


@pytest.fixture(scope="module")
def tools(peer: Peer) -> None:
    """Give both machines iperf3."""
    for target in (NODE, peer):
        script = f"cat >/usr/local/bin/iperf3 <<'END'\n{IPERF3}END\nchmod +x /usr/local/bin/iperf3"
        checked(target, "sh", "-ec", script)


@pytest.fixture(scope="module")
def pair(peer: Peer, tools: None) -> Iterator[Pair]:
    """Have two rails between the machines, with a soft-RoCE device on each end."""
    targets: dict[str, ExecTarget] = {"here": NODE, "there": peer}
    with ExitStack() as stack:
        for number, target in enumerate(targets.values(), 1):
            stack.callback(target.run, "sh", "-c", TAKE_DOWN)
            checked(target, "sh", "-ec", SET_UP, "-", str(number))
        loaded = [soft_rdma(Driver.MOVABLE, "exclusive", target) for target in targets.values()]
        at_once(stack.enter_context, loaded)
        for target in targets.values():
            for number, rail in enumerate(RAILS):
                rdma.add_link(f"rxe{number}", rail, target)
        workers = (worker("here", 1, "192.0.2.2"), worker("there", 2, peer.uplink))
        pair = Pair(targets, workers)
        pair.wire()
        for rail in RAILS:
            wait_until(f"{rail} to answer", partial(answers, pair, rail))
        yield pair


def worker(name: str, number: int, address: str) -> WorkerPod:
    """Return a machine as a pod with two NICs."""
    nics = tuple(
        ClaimedNic(rail, rail, f"10.9.{index}.{number}", f"rxe{index}", Fabric.ROCE, MTU, 0, WIRE)
        for index, rail in enumerate(RAILS)
    )
    return WorkerPod(name, name, address, nics, (0,))


def macs_of(target: ExecTarget) -> list[str]:
    """Return the MAC addresses of the NICs of a machine."""
    paths = [f"/sys/class/net/{rail}/address" for rail in RAILS]
    return checked(target, "cat", *paths).split()


def answers(pair: Pair, rail: str) -> bool:
    """Whether the peer answers on a rail."""
    address = f"10.9.{RAILS.index(rail)}.2"
    return NODE.run("ping", "-c", "1", "-W", "1", "-I", rail, address).exit_code == 0


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault on one of the machines.

    Attributes:
        where: the machine.
        begin: shell commands that cause it.
        end: shell commands that remove it.
        expected: the check that fails, and the cause that it names.
        pods: what the pods have that are verified.
        prefix: of all commands on the machine while the fault is there.
        pings: how many measure the loss.
    """

    where: str
    begin: str
    end: str
    expected: tuple[str, str]
    pods: Change = without_rdma_one
    prefix: Sequence[str] = ()
    pings: int = PACE.pings

    def found(self, pair: Pair) -> set[tuple[str, str]]:
        """Return the findings of `verify` during the fault."""
        target = pair.targets[self.where]
        try:
            checked(target, "sh", "-ec", self.begin)
            with_prefix = replace(pair, prefixes={self.where: self.prefix})
            return with_prefix.failures(self.pods, replace(PACE, pings=self.pings))
        finally:
            checked(target, "sh", "-ec", self.end)
            pair.wire()  # it is bound to the names of the NICs
            for rail in RAILS:
                wait_until(f"{rail} to answer", partial(answers, pair, rail))


NO_QDISC: Final = "tc qdisc del dev ens1 root"
NO_FILTER: Final = "nft delete table netdev fault"
FILTER: Final = """
nft add table netdev fault
nft add chain netdev fault in '{ type filter hook ingress device ens1 priority 0; }'
nft add rule netdev fault in '%s'
"""
FAULTS: Final = {
    "smaller mtu in the path": Fault(
        "there", FILTER % "meta length > 1400 drop", NO_FILTER, ("path mtu", "path-mtu")
    ),
    "other mtu than the claim": Fault(
        "there", "ip link set ens1 mtu 1400", "ip link set ens1 mtu 1500", ("mtu", "mtu")
    ),
    # A NIC on another VLAN receives nothing, ARP included; its pod has no ARP entry of the other.
    "wrong vlan": Fault(
        "here", FILTER % "drop" + "ip neigh flush dev ens1", NO_FILTER, ("reach", "no-neighbour")
    ),
    "port down": Fault(
        "there",
        "ip link set ens1 down",
        "ip link set ens1 up",
        ("link", "down"),
    ),
    # Of 2,000 packets, less than 5 are lost once in 50,000 runs.
    "loss": Fault(
        "there", "tc qdisc add dev ens1 root netem loss 1%", NO_QDISC, ("loss", "loss"),
        pings=2000,
    ),
    "slow link": Fault(
        "here", "tc qdisc add dev ens1 root tbf rate 4mbit burst 16kb latency 400ms", NO_QDISC,
        ("tcp", "slow"),
    ),
    "firewall": Fault(
        "there", FILTER % "ip protocol icmp drop", NO_FILTER, ("reach", "firewall")
    ),
    "firewall for tcp": Fault(
        "there", FILTER % "tcp dport 5201 drop", NO_FILTER, ("tcp", "no-tcp")
    ),
    "firewall for roce": Fault(
        "there", FILTER % "udp dport 4791 drop", NO_FILTER, ("rping", "no-rdma"), first_nic,
    ),
    "wrong source routing": Fault(
        "here",
        "ip rule add from 10.9.0.1 lookup 100; ip route add default dev ens2 table 100",
        "ip rule del from 10.9.0.1; ip route flush table 100",
        ("route", "route"),
    ),
    "no gid": Fault(
        "there", "ip addr del 10.9.0.2/24 dev ens1", "ip addr add 10.9.0.2/24 dev ens1",
        ("gid", "no-gid"), first_nic,
    ),
    "no nic": Fault(
        "there",
        "ip link set ens1 down name elsewhere",
        "ip link set elsewhere name ens1; ip link set ens1 up",
        ("present", "missing"),
    ),
    "little locked memory": Fault(
        "there", "true", "true", ("memlock", "memlock"), first_nic,
        # As in a pod: the limit does not hold for CAP_IPC_LOCK.
        ("setpriv", "--bounding-set=-ipc_lock", "prlimit", "--memlock=65536"),
    ),
    "gpu of another numa node": Fault("here", "true", "true", ("numa", "numa"), far_gpu),
}  # fmt: skip
