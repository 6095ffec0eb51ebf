"""Checks between two NICs: reachability, MTU, loss, TCP and RDMA.

Each check runs a program of iputils, iproute2, iperf3, librdmacm or perftest in the pods. The
checks are in phases. A phase ends for all pairs of a round before the next one begins, so that
latency is measured without other traffic. A pair that fails a gate has no later phases.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from dra_shim.verify import outputs
from dra_shim.verify.node_checks import failed, name_of, passed, speed_of
from dra_shim.verify.outputs import PodFacts
from dra_shim.verify.thresholds import THRESHOLDS, Thresholds, passes
from dra_shim.verify.types import (
    ClaimedNic,
    CommandResult,
    Fabric,
    Line,
    Outcome,
    PodRunner,
    WorkerPod,
)

IP_AND_ICMP: Final = {4: 28, 6: 48}  # bytes of headers
START_S: Final = 60.0  # for `kubectl exec` to start server and client
FLOOD_PAUSE_S: Final = 0.01  # longest pause of a flood before the next packet
# The server may start later than the client: the client is retried, and its last output printed.
UNTIL_SERVED: Final = 'until said=$("$@" 2>/dev/null); do sleep 0.3; done; echo "$said"'
PROGRAM_S: Final = 1.0  # for server and client of one measurement to start, in shells that run
PINGS_S: Final = 0.4
NO_ANSWER_S: Final = "5"  # longer than the kernel asks for a neighbour; an answer ends the wait
ATTEMPTS: Final = 3
RPINGS: Final = "5"
RPING_S: Final = 20.0  # limit of an attempt; earlier phases have started the shells
PERFTEST_PORT: Final = 18515  # of the first rail; its server listens on all addresses of the pod
NO_CONNECTIONS: Final = (
    "a NIC has RDMA without connections (EFA): measure it with `fi_pingpong -p efa` of libfabric"
)
# Runs an rping client until its last ping: about once in some hundred runs it hangs afterwards,
# because librdmacm destroys the connection while another thread handles its end.
UNTIL_PINGED: Final = """
sh -c 'echo $$; exec stdbuf -oL rping -c -v -C "$@"' - "$@" | {
    read -r pid
    pings=$(head -n "$1" | grep -c "^ping data")
    kill "$pid" 2>/dev/null
    [ "$pings" -eq "$1" ]
}
"""


@dataclass(frozen=True, slots=True)
class MeasureDurations:
    """Durations of the measurements.

    Attributes:
        pings: number of packets.
        pings_s: seconds for them on a healthy network.
        seconds: duration of TCP and RDMA writes.
        reads: number of RDMA reads.
        rounds: repetitions of a collective operation.
    """

    pings: int
    pings_s: int
    seconds: int
    reads: int
    rounds: int


# With 2,000 packets, a loss of 1 % is measured as less than 0.2 % once in 50,000 runs.
QUICK: Final = MeasureDurations(pings=2000, pings_s=5, seconds=1, reads=200, rounds=5)
FULL: Final = MeasureDurations(pings=10000, pings_s=25, seconds=5, reads=5000, rounds=20)


@dataclass(frozen=True, slots=True)
class NicEnd:
    """One of the two NICs.

    Attributes:
        worker: the pod that has it.
        nic: the NIC.
        facts: facts of the pod.
        rail: index of the NIC in the pod.
    """

    worker: WorkerPod
    nic: ClaimedNic
    facts: PodFacts
    rail: int

    @property
    def name(self) -> str:
        """Return its name in the report."""
        return name_of(self.worker, self.nic)

    @property
    def is_up(self) -> bool:
        """Return whether interface and RDMA device exist and are up."""
        link, port = self.facts.links.get(self.nic.interface), self.facts.ports.get(self.nic.rdma)
        if (self.nic.interface and link is None) or (self.nic.rdma and port is None):
            return False
        return (link is None or link.up) and (port is None or port.active)

    @property
    def gid(self) -> int | None:
        """Return the index of the GID to use; None without a usable one."""
        return outputs.usable_gid(self.facts.ports[self.nic.rdma], self.nic.address)


@dataclass(frozen=True, slots=True)
class CheckPhase:
    """A part of the checks.

    Attributes:
        name: name in the progress.
        check: yields the lines of a pair of NICs.
        seconds: longest duration on a healthy network.
        gate: whether a pair has later phases only if all lines of this one passed.
    """

    name: str
    check: Callable[[NicEnd, NicEnd], Iterator[Line]]
    seconds: float
    gate: bool = False


class PairChecks:
    """The checks from one NIC to another."""

    def __init__(
        self, runner: PodRunner, thresholds: Thresholds, durations: MeasureDurations
    ) -> None:
        self._runner = runner
        self._thresholds = thresholds
        self._durations = durations

    def phases(self) -> tuple[CheckPhase, ...]:
        """Return the phases in their order."""
        timed = self._durations.seconds + PROGRAM_S
        return (
            CheckPhase("reach", self._connect, 2 * PINGS_S + PROGRAM_S, gate=True),
            CheckPhase("loss", self._packets, self._durations.pings_s),
            CheckPhase("tcp", self._streams, timed),
            CheckPhase("rping", self._verbs, PROGRAM_S, gate=True),
            CheckPhase("write", self._writes, timed),
            CheckPhase("latency", self._reads, timed),
        )

    # ------------------------------------------------------------------ IP

    def _connect(self, source: NicEnd, target: NicEnd) -> Iterator[Line]:
        if not (source.is_up and target.is_up):
            yield _skipped("reach", source, target, "a link is down")
            return
        kinds = [end.nic.fabric is Fabric.INFINIBAND for end in (source, target)]
        if any(kinds) and not all(kinds):
            yield _skipped("reach", source, target, "one NIC is InfiniBand, the other is not")
            return
        if all(kinds):
            ports = (source.facts.ports[source.nic.rdma], target.facts.ports[target.nic.rdma])
            if not outputs.share_partition(ports[0].pkeys, ports[1].pkeys):
                yield failed("pkey", "pkey", source.name, target.name)
                return
            yield passed("pkey", source.name, target.name)
        if source.nic.address and target.nic.address:
            reached = True
            for line in self._reach(source, target):
                reached &= line.outcome is not Outcome.FAILED
                yield line
            if not reached:
                yield _skipped("rates", source, target, "the NICs do not reach each other")

    def _packets(self, source: NicEnd, target: NicEnd) -> Iterator[Line]:
        if source.nic.address and target.nic.address:
            yield self._measured("loss", ("loss", "loss"), source, target, self._loss)
        elif source.nic.interface:
            yield _skipped("reach", source, target, "a NIC has no IP address: set one on its node")

    def _streams(self, source: NicEnd, target: NicEnd) -> Iterator[Line]:
        if source.nic.address and target.nic.address:
            threshold = "ipoib" if source.nic.fabric is Fabric.INFINIBAND else "tcp"
            yield self._measured(threshold, ("slow", "no-tcp"), source, target, self._tcp)

    def _reach(self, source: NicEnd, target: NicEnd) -> Iterator[Line]:
        for one, other in ((source, target), (target, source)):
            routed = self._run(
                one, "ip", "route", "get", other.nic.address, "from", one.nic.address
            )
            device = outputs.parse_route_device(routed.stdout)
            if device != one.nic.interface:
                yield failed(
                    "route", "route", one.name, other.name, device or "none", one.nic.interface
                )
                return
        yield passed("route", source.name, target.name, source.nic.interface)
        if self._ping(source, target, 56):
            yield passed("reach", source.name, target.name)
        else:
            yield failed("reach", self._why_unreachable(source, target), source.name, target.name)
            return
        mtu = source.nic.mtu or source.facts.links[source.nic.interface].mtu
        version = 6 if ":" in target.nic.address else 4
        check, value = ("path mtu", source.name, target.name), f"{mtu} bytes"
        if self._ping(source, target, mtu - IP_AND_ICMP[version]):
            yield passed(*check, value)
        else:
            yield failed(check[0], "path-mtu", *check[1:], f"less than {value}", value)

    def _ping(self, source: NicEnd, target: NicEnd, size: int) -> bool:
        done = self._run(
            source, "ping", "-c", "3", "-i", "0.2", "-W", NO_ANSWER_S, "-M", "do", "-s", str(size),
            "-I", source.nic.interface, target.nic.address,
        )  # fmt: skip
        lost = outputs.parse_loss(done.stdout)
        return lost is not None and lost < 100

    def _why_unreachable(self, source: NicEnd, target: NicEnd) -> str:
        """Return the cause, by the link-layer address that answers for the next hop."""
        routed = self._run(
            source, "ip", "route", "get", target.nic.address, "from", source.nic.address
        )
        gateway = outputs.parse_gateway(routed.stdout)
        mac = self._neighbour(source, source.nic.interface, gateway or target.nic.address)
        if gateway:
            return "firewall" if mac else "no-neighbour"
        own = target.facts.links[target.nic.interface].mac
        if mac == own:
            return "firewall"
        # Linux answers ARP requests for all its addresses on each NIC.
        if mac in {link.mac for link in target.facts.links.values()}:
            return "crossed"
        for nic in source.worker.nics:
            if nic.interface and nic != source.nic:
                self._run(
                    source, "ping", "-c", "1", "-W", NO_ANSWER_S, "-I", nic.interface,
                    target.nic.address,
                )  # fmt: skip
                if self._neighbour(source, nic.interface, target.nic.address) == own:
                    return "crossed"
        return "no-neighbour"

    def _neighbour(self, source: NicEnd, interface: str, address: str) -> str:
        shown = self._run(source, "ip", "neigh", "show", "to", address, "dev", interface)
        return outputs.parse_neighbour(shown.stdout)

    def _loss(self, source: NicEnd, target: NicEnd) -> float | None:
        # Without a limit of ping itself: at its limit, packets on the way would count as lost.
        limit_s = START_S + self._durations.pings * FLOOD_PAUSE_S
        done = self._run(
            source, "ping", "-q", "-f", "-c", str(self._durations.pings),
            "-I", source.nic.interface, target.nic.address, limit_s=limit_s,
        )  # fmt: skip
        return outputs.parse_loss(done.stdout)

    def _tcp(self, source: NicEnd, target: NicEnd) -> float | None:
        done = self._served(
            target, ("iperf3", "--server", "--one-off", "--bind", target.nic.address),
            source, ("iperf3", "--client", target.nic.address, "--bind", source.nic.address,
                     "--connect-timeout", "2000", "--time", str(self._durations.seconds), "--json"),
        )  # fmt: skip
        return outputs.parse_iperf3(done.stdout)

    # ------------------------------------------------------------------ RDMA

    def _verbs(self, source: NicEnd, target: NicEnd) -> Iterator[Line]:
        if not (source.nic.rdma and target.nic.rdma):
            return
        if Fabric.EFA in (source.nic.fabric, target.nic.fabric):
            yield _skipped("rdma", source, target, NO_CONNECTIONS)
            return
        if None in (source.gid, target.gid):
            yield _skipped("rdma", source, target, "an RDMA device has no usable GID")
            return
        if source.nic.address and target.nic.address:
            if any(self._rping(source, target) for _ in range(ATTEMPTS)):
                yield passed("rping", source.name, target.name)
            else:
                yield failed("rping", "no-rdma", source.name, target.name, "no connection")

    def _writes(self, source: NicEnd, target: NicEnd) -> Iterator[Line]:
        if source.nic.rdma and target.nic.rdma:
            yield self._measured("write", ("slow", "no-rdma"), source, target, self._write)

    def _reads(self, source: NicEnd, target: NicEnd) -> Iterator[Line]:
        if source.nic.rdma and target.nic.rdma:
            yield self._measured("latency", ("late", "no-rdma"), source, target, self._latency)

    def _rping(self, source: NicEnd, target: NicEnd) -> bool:
        """Return whether a connection of the RDMA connection manager works."""
        words = (RPINGS, "-a", target.nic.address)
        client = ("sh", "-c", UNTIL_PINGED, "-", *words)
        served = self._served(target, ("rping", "-s", "-C", *words), source, client, RPING_S)
        return served.exit_code == 0

    def _write(self, source: NicEnd, target: NicEnd) -> float | None:
        seconds = self._durations.seconds
        # 16 messages of 64 KiB in flight are enough for 800 Gbit/s at 10 µs, and not too many for a
        # slow link.
        command = ("ib_write_bw", "--report_gbits", "--tx-depth", "16", "-D", str(seconds))
        done = self._perftest(command, source, target)
        value = outputs.parse_write(done.stdout, outputs.counted_seconds(seconds))
        return value or _without_report(done)

    def _latency(self, source: NicEnd, target: NicEnd) -> float | None:
        command = ("ib_read_lat", "-n", str(self._durations.reads))
        done = self._perftest(command, source, target)
        value = outputs.parse_latency(done.stdout)
        if value is None and not done.exit_code:  # the CPU's clock frequency is unknown
            seconds = self._durations.seconds
            done = self._perftest(("ib_read_lat", "-D", str(seconds)), source, target)
            counted = outputs.counted_seconds(seconds)
            value = outputs.parse_counted_latency(done.stdout, counted)
        return value or _without_report(done)

    def _perftest(self, command: Sequence[str], source: NicEnd, target: NicEnd) -> CommandResult:
        port = str(PERFTEST_PORT + target.rail)
        family = ["--ipv6-addr"] if ":" in target.worker.address else []
        client, server = (
            (*command, *family, "-p", port, "-d", end.nic.rdma, "-x", str(end.gid), "-F")
            for end in (source, target)
        )
        return self._served(target, server, source, (*client, target.worker.address))

    # ------------------------------------------------------------------ programs

    def _served(
        self, server: NicEnd, serve: Sequence[str], client: NicEnd, ask: Sequence[str],
        limit_s: float = 0.0,
    ) -> CommandResult:  # fmt: skip
        """Run a server and its client; return the result of the client."""
        limit = limit_s or START_S + 3 * self._durations.seconds
        with ThreadPoolExecutor(1) as pool:
            # `timeout` ends it in the pod: without a client it would occupy the port.
            guarded = ("timeout", f"{limit:.0f}", *serve)
            pool.submit(self._runner.run, server.worker.pod, guarded, limit + 5)
            retried = ("timeout", f"{limit:.0f}", "sh", "-c", UNTIL_SERVED, "-", *ask)
            return self._runner.run(client.worker.pod, retried, limit + 5)

    def _run(self, end: NicEnd, *command: str, limit_s: float = 20.0) -> CommandResult:
        return self._runner.run(end.worker.pod, command, limit_s)

    def _measured(
        self,
        name: str,
        causes: tuple[str, str],
        source: NicEnd,
        target: NicEnd,
        measured: Callable[[NicEnd, NicEnd], float | None],
    ) -> Line:
        """Return the line of a measurement, which is repeated until it reaches the threshold.

        It is repeated, at most ATTEMPTS times, because other traffic may disturb it.

        Args:
            name: name of the threshold.
            causes: cause of a value that misses the threshold, and cause of a missing value.
            source: the end that sends.
            target: the end that receives.
            measured: returns the value; None without a connection, NaN without a report.
        """
        speed = min(speed_of(end.nic, end.facts) for end in (source, target))
        threshold = self._thresholds.of(name, source.nic.fabric, speed)
        unit, more_is_better, _ = THRESHOLDS[name]
        value = math.nan
        for _ in range(ATTEMPTS):
            result = measured(source, target)
            if result is None:
                return failed(name, causes[1], source.name, target.name, "no result")
            if math.isnan(result):
                continue
            value = result
            if passes(name, value, threshold):
                texts = (f"{value:.3g} {unit}", f"{threshold:.3g} {unit}")
                return passed(name, source.name, target.name, *texts)
        if math.isnan(value):
            return _skipped(name, source, target, "the program printed no report")
        ratio = value / threshold if more_is_better else threshold / value
        texts = (f"{value:.3g} {unit}", f"{threshold:.3g} {unit}")
        return failed(name, causes[0], source.name, target.name, *texts, ratio)


def _without_report(done: CommandResult) -> float | None:
    """Return NaN for a program that succeeded, None for one that failed."""
    return None if done.exit_code else math.nan


def _skipped(check: str, source: NicEnd, target: NicEnd, why: str) -> Line:
    return Line(check, source.name, target.name, Outcome.NOT_MEASURED, meaning=why, ratio=0.5)
