"""A host whose NICs go to pods by the real executor, on the kernel that we run on."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from dranet_nri.attach.execution.executor import PlanExecutor
from dranet_nri.attach.rdma import RdmaOptions
from dranet_nri.component.clock import SystemClock
from dranet_nri.kernel.netns import run_inside
from dranet_nri.kernel.session import NetlinkKernel, NetlinkSession
from dranet_nri.model import (
    BANDWIDTH,
    AllocatedDevice,
    Allocation,
    Attachment,
    Consumed,
    Device,
    DeviceKey,
    NetnsId,
    NetworkConfig,
    ObjectRef,
    Pod,
)
from tests.dranet_nri.attach.execution.journal import Clock, Journal
from tests.system.kernel.namespaces import add_veth, new_netns

T = TypeVar("T")
DHCP_S = 2.0


class Rails:
    """A host with an uplink and NICs nic0, nic1, … (10.5.N.7/24, fd00:N::7/64), and pods.

    A pod has an eth0 of 10.244.1.5/24 and fd44::5/64.
    """

    def __init__(self, nics: int, pods: int, clock: SystemClock) -> None:
        """Make it."""
        self._host, self._wire = new_netns(), new_netns()
        self._pods = [new_netns() for _ in range(pods)]
        add_veth(self._host, "uplink", self._wire)
        self.ip("addr add 10.1.0.2/24 dev uplink", "link set uplink up")
        for number in range(nics):
            add_veth(self._host, f"nic{number}", self._wire)
            self.ip(
                f"addr add 10.5.{number}.7/24 dev nic{number}",
                f"addr add fd00:{number}::7/64 dev nic{number} nodad",
                f"link set nic{number} up",
            )
        for number in range(pods):
            self.ip(
                "link add eth0 type veth peer name peer0",
                "link set peer0 up",
                "link set eth0 up",
                "addr add 10.244.1.5/24 dev eth0",
                "addr add fd44::5/64 dev eth0 nodad",
                pod=number,
            )
        self.journal = Journal()
        self._clock = clock
        self._start()

    def _start(self) -> None:
        self.kernel = NetlinkKernel(host_path=f"/proc/self/fd/{self._host}")
        for number in range(len(self._pods)):
            assert self.kernel.hold(self._netns(number))
        self._executor = PlanExecutor(
            self.kernel, self.journal, self._clock, RdmaOptions(), dhcp_s=DHCP_S
        )

    def restart(self) -> None:
        """Replace kernel and executor by new ones, as after the end of the plugin's process."""
        for number in range(len(self._pods)):
            self.kernel.release(self._netns(number))
        self._start()

    def on_wire(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start a program at the other end of the NICs, whose links there are pnic0, pnic1, …."""
        return _started(self._wire, arguments)

    def in_pod(self, *arguments: str, pod: int = 0) -> "subprocess.Popen[str]":
        """Start a program in a pod."""
        return _started(self._pods[pod], arguments)

    def session(self, pod: int = 0) -> NetlinkSession:
        """Open a session with a pod."""
        return self.kernel.session(self._netns(pod))

    def _netns(self, pod: int) -> NetnsId:
        netns = self.kernel.identify(f"/proc/self/fd/{self._pods[pod]}")
        assert netns is not None
        return netns

    def call(self, work: Callable[[], T], pod: int | None = None) -> T:
        """Return the result of a function that runs on the host, or in a pod."""
        return run_inside(self._host if pod is None else self._pods[pod], work)

    def _inside(self, pod: int | None, *arguments: str) -> str:
        def run() -> str:
            done = subprocess.run(arguments, check=True, capture_output=True, text=True)
            return done.stdout

        return self.call(run, pod)

    def take(self, name: str) -> None:
        """Take a NIC of the machine; it returns there when the host vanishes."""
        where = f"/proc/{os.getpid()}/fd/{self._host}"
        subprocess.run(("ip", "link", "set", name, "netns", where), check=True)

    def ip(self, *commands: str, pod: int | None = None) -> None:
        """Run commands of iproute2 on the host, or in a pod."""
        for command in commands:
            self._inside(pod, "ip", *command.split())

    def sysctl(self, setting: str, pod: int) -> None:
        """Write a sysctl in a pod."""
        self._inside(pod, "sysctl", "-qw", setting)

    def write_sysctl(self, setting: str) -> None:
        """Write a sysctl on the host."""
        key, _, value = setting.partition("=")
        self._inside(None, "sh", "-c", f"echo {value} > {_file(key)}")

    def read_sysctl(self, key: str, pod: int | None = None) -> str:
        """Return a sysctl of the host, or of a pod."""
        return self._inside(pod, "cat", _file(key)).strip()

    def shown(self, what: str, pod: int | None = None, tool: str = "ip") -> list[str]:
        """Return the lines that iproute2 shows, in its order, without needless blanks."""
        text = self._inside(pod, tool, *what.split()).replace("\n\t", " ")
        return [" ".join(line.split()) for line in text.splitlines()]

    def routes(self, prefix: str, pod: int | None = None) -> list[str]:
        """Return the routes to a prefix, sorted, with their next hops."""
        family = "-6" if ":" in prefix else "-4"
        return sorted(self.shown(f"{family} route show {prefix}", pod))

    def attach(
        self,
        *nics: str,
        pod: int = 0,
        config: NetworkConfig = NetworkConfig(),
        bandwidth: int | None = None,
        before: Attachment | None = None,
    ) -> Attachment:
        """Attach NICs to a pod by one claim, all of the same configuration and share in bit/s.

        Its last record is before.
        """
        part = () if bandwidth is None else (Consumed(BANDWIDTH, bandwidth),)
        uid = f"claim-{pod}-{'-'.join(nics)}"
        devices = tuple(
            AllocatedDevice(nic, "node", Device(nic, DeviceKey("", "", nic)), config, consumed=part)
            for nic in nics
        )
        owner = ObjectRef("default", "web", f"uid-{pod}")
        allocation = Allocation(ObjectRef("default", uid, uid), owner, devices, "nonce", "boot")
        netns = self._netns(pod)
        sandbox = Pod(f"sandbox-{pod}", owner.uid, "default", "web", netns.path)
        (record,) = self._executor.attach(
            sandbox, netns, (allocation,), {uid: before} if before else {}
        )
        return record

    def rate(self, record: Attachment, pod: int = 0) -> int:
        """Return the limit of the claim's only child in bit/s, as the plugin observes it."""
        session = self.session(pod)
        try:
            return session.child(record.devices[0].child).pod_rate
        finally:
            session.close()

    def detach(self, record: Attachment, *, netns_exists: bool = True) -> Attachment:
        """Detach a claim's NICs, in one try."""
        return self._executor.detach(record, netns_exists=netns_exists)

    def ping(self, address: str, source: str, pod: int) -> None:
        """Ping an address from one of the pod's, in a few tries."""
        self._inside(pod, "ping", "-c5", "-i0.2", "-W2", "-w5", "-I", source, address)

    def end_pod(self, number: int) -> None:
        """Let a pod's namespace die."""
        self.kernel.release(self._netns(number))
        os.close(self._pods.pop(number))

    def close(self) -> None:
        """Delete everything."""
        for number, pod in enumerate(self._pods):
            self.kernel.release(self._netns(number))
            os.close(pod)
        os.close(self._host)
        os.close(self._wire)


def _started(netns: int, arguments: tuple[str, ...]) -> "subprocess.Popen[str]":
    """Start a program in a namespace."""
    return run_inside(
        netns,
        lambda: subprocess.Popen(
            arguments, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ),
    )


def _file(key: str) -> str:
    """Return the file of a sysctl; no name of a link here has a dot."""
    return f"/proc/sys/{key.replace('.', '/')}"


@contextmanager
def rails(nics: int, pods: int = 1, clock: SystemClock | None = None) -> Iterator[Rails]:
    """Make a host for the length of a block; without a clock, no time passes in a wait."""
    made = Rails(nics, pods, clock or Clock())
    try:
        yield made
    finally:
        made.close()
