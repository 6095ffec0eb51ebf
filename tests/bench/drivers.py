"""A node driver on a node of its own: its processes, and the runtime, kubelet and API server.

The node is a network namespace with NICs. The same program plays the other sides for each driver:
the runtime on an NRI socket, the kubelet with gRPC, and kube_api.py. All files of both drivers are
on one tmpfs: the other directories of the box are on an overlay, where each new file costs more,
and delays the next move of a NIC.
"""

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final

import grpc

from dra_shim._gen import dra_v1_pb2
from dra_shim._gen.pluginregistration_v1_pb2 import (
    InfoRequest,
    PluginInfo,
    RegistrationStatus,
    RegistrationStatusResponse,
)
from dranet_nri._gen import nri_pb2
from tests.bench.kube_api import PORT, REQUESTS
from tests.box.nics import ip
from tests.box.waiting import wait_until
from tests.fakes.runtime import FakeRuntime

NODE: Final = "node-1"
CERTIFICATE, KEY = Path("/io/server.crt"), Path("/io/server.key")  # hack/bench makes them
PEER: Final = "dranet"
PEER_NRI: Final = Path("/var/run/nri/nri.sock")  # it has no flag for it
LIMIT_S: Final = 60.0
CALL_S: Final = 30.0
SERVICE: Final = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/Node{}Resources"
REGISTRATION: Final = "/pluginregistration.Registration/"
# As in the DaemonSet: the library that reads kubeconfigs would count as memory of the shim.
ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_CLUSTER: Final = {
    "KUBERNETES_SERVICE_HOST": "127.0.0.1",
    "KUBERNETES_SERVICE_PORT": str(PORT),
}


class Control(HTTPConnection):
    """The benchmark's own connection to the API server of a node."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        """Connect to the Unix socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.fspath(self._path))

    def query(self, method: str, path: str, document: object = None) -> Any:
        """Return the answer's document."""
        self.request(method, path, json.dumps(document) if document is not None else None)
        response = self.getresponse()
        answer = json.loads(response.read())
        assert response.status < 300, f"{method} {path}: {answer}"
        return answer


class RuntimeSocket:
    """The runtime's end of one NRI connection, with calls that block."""

    def __init__(self, connection: socket.socket) -> None:
        """Register, configure and synchronise the plugin."""
        self._connection = connection
        connection.settimeout(CALL_S)
        self.runtime = FakeRuntime()
        while not self.runtime.registrations:
            self.runtime.receive(self._received())
        self.runtime.accept()
        self._connection.sendall(self.runtime.data_to_send())
        self.call(self.runtime.configure())
        self.call(self.runtime.synchronize())

    def call(self, stream: int) -> float:
        """Send what is queued; return the seconds until the answer of the stream is here."""
        data = self.runtime.data_to_send()
        begin = end = time.perf_counter()
        self._connection.sendall(data)
        while stream not in self.runtime.answers:
            data = self._received()
            end = time.perf_counter()
            self.runtime.receive(data)
        answer = self.runtime.answers.pop(stream)
        assert answer.status is None, answer.status
        return end - begin

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _received(self) -> bytes:
        data = self._connection.recv(1 << 16)
        assert data, "the plugin closed its connection"
        return data


@dataclass
class Driver:
    """One driver and its node.

    Attributes:
        name: of the driver.
        root: what the node has of its own below /run.
        nri: where its runtime listens.
        commands: its processes by name.
        nics: how many NICs the node has.
        marks: seconds from spawn to "registered" at the kubelet and "synchronized" by the runtime,
            and the CPU time until both, as "CPU".
    """

    name: str
    root: Path
    nri: Path
    commands: Mapping[str, Sequence[str]]
    nics: int
    marks: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the names of its namespaces."""
        self.host, self.pod, self.far = (f"{self.name}-{end}" for end in ("host", "pod", "far"))
        self.registry = self.root / "kubelet/plugins_registry"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._device_names: dict[str, str] = {}

    def build(self) -> None:
        """Make the node: namespaces, NICs, API server, runtime."""
        for directory in (self.registry, self.root / "kubelet/plugins", self.nri.parent):
            directory.mkdir(parents=True, exist_ok=True)
        for namespace in (self.host, self.pod, self.far):
            ip("netns", "add", namespace)
            ip("-n", namespace, "link", "set", "lo", "up")
        for number in range(self.nics):
            ends = (f"nic{number}", "type", "veth", "peer", "name", f"wire{number}")
            ip("-n", self.host, "link", "add", *ends, "netns", self.far)
            ip("-n", self.far, "link", "set", f"wire{number}", "up")
        self.configure_nics(range(self.nics))
        control = self.root / "api.sock"
        module = (sys.executable, "-m", "tests.bench.kube_api")
        self._api_process = subprocess.Popen(
            ("ip", "netns", "exec", self.host, *module, control, CERTIFICATE, KEY),
            stdin=subprocess.PIPE,
        )
        wait_until("the API server", control.exists)
        ACCOUNT.mkdir(parents=True, exist_ok=True)
        shutil.copy(CERTIFICATE, ACCOUNT / "ca.crt")
        (ACCOUNT / "token").write_text("abc")
        self.api = Control(control)
        self.api.query("POST", "/api/v1/nodes", {"metadata": {"name": NODE}})
        self._listener = socket.socket(socket.AF_UNIX)
        self.nri.unlink(missing_ok=True)  # the containerd of another group leaves its socket
        self._listener.bind(os.fspath(self.nri))
        self._listener.listen()
        self._listener.settimeout(LIMIT_S)

    def configure_nics(self, numbers: Sequence[int]) -> None:
        """Give NICs what moves with them: two addresses, up, a route."""
        lines = []
        for number in numbers:
            v4, v6, network, gateway = addresses(number)
            lines += [
                f"addr replace {v4} dev nic{number}",
                f"addr replace {v6} dev nic{number} nodad",
                f"link set nic{number} up",
                f"route replace {network} via {gateway} dev nic{number}",
            ]
        command = ("ip", "-n", self.host, "-batch", "-")
        subprocess.run(command, input="\n".join(lines), text=True, check=True)

    def grow(self, pods: int, routes: int) -> None:
        """Give the node other pods, each with a veth and a route, and routes to other nodes."""
        link, local, remote = "uplink", "10.250.0.1/16", "10.250.0.2"
        lines = [
            f"link add {link} type veth peer name uplink-far netns {self.far}",
            f"addr add {local} dev {link}",
            f"link set {link} up",
        ]
        for number in range(pods):
            space = f"{self.name}-other{number}"
            ip("netns", "add", space)
            lines += [
                f"link add cali{number} type veth peer name eth0 netns {space}",
                f"link set cali{number} up",
                f"route add 10.251.{number}.2/32 dev cali{number}",
            ]
        lines += (
            f"route add 10.{252 + number // 256}.{number % 256}.0/24 via {remote} proto bird"
            for number in range(routes)
        )
        command = ("ip", "-n", self.host, "-batch", "-")
        subprocess.run(command, input="\n".join(lines), text=True, check=True)
        ip("-n", self.far, "link", "set", "uplink-far", "up")

    def start(self) -> None:
        """Spawn it; return once it is registered and synchronised, with the marks set."""
        begin = time.perf_counter()
        for name, command in self.commands.items():
            with Path("/tmp", f"bench-{name}.log").open("ab") as log:
                self._processes[name] = subprocess.Popen(
                    ("ip", "netns", "exec", self.host, *command),
                    env={**os.environ, **IN_CLUSTER},
                    stdout=log,
                    stderr=log,
                )
        self._listener.setblocking(False)  # noqa: FBT003 - the socket's own signature
        waiting: dict[str, Callable[[], bool]] = {
            "registered": self._register,
            "synchronized": self._synchronize,
        }
        while waiting:
            assert time.perf_counter() < begin + LIMIT_S, f"{self.name}: not {list(waiting)}"
            for mark, reached in tuple(waiting.items()):
                if reached():
                    self.marks[mark] = time.perf_counter() - begin
                    del waiting[mark]
            time.sleep(0.0005)
        self.marks["CPU"] = self.cpu()

    def stop(self) -> None:
        """Kill it and forget its registration."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        self._channel.close()
        self.runtime.close()
        for path in self.registry.iterdir():
            path.unlink()

    def close(self) -> None:
        """End everything of the node."""
        self.stop()
        assert self._api_process.stdin is not None
        self._api_process.stdin.close()
        self._api_process.wait()
        self._listener.close()

    def cpu(self) -> float:
        """Return the seconds of CPU that its processes took so far."""
        return sum(self.cpu_of(name) for name in self._processes)

    def cpu_of(self, name: str) -> float:
        """Return the seconds of CPU that one of its processes took so far."""
        return process_cpu(self._processes[name].pid)

    def memory_kib(self) -> dict[str, int]:
        """Return the proportional set size of each process in KiB."""
        sizes = {}
        for name, process in self._processes.items():
            lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
            sizes[name] = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return sizes

    def requests(self) -> dict[str, int]:
        """Return how often it asked the API server for what."""
        counted: dict[str, int] = self.api.query("GET", REQUESTS)
        return counted

    def device(self, interface: str) -> str:
        """Return the name under which the interface is published; wait until it is."""
        wait_until(f"{self.name} to publish {interface}", lambda: self._published(interface))
        return self._device_names[interface]

    def kubelet(self, verb: str, claim: Mapping[str, str]) -> float:
        """Call NodePrepareResources or NodeUnprepareResources; return the seconds it took."""
        return kubelet_call(self._channel, verb, claim)

    def sandbox(self, identity: str, uid: str, **labels: str) -> nri_pb2.PodSandbox:
        """Return a pod in the node's namespace for pods."""
        pod = nri_pb2.PodSandbox(id=identity, name=identity, uid=uid, namespace="default")
        pod.labels.update(labels)
        pod.linux.namespaces.add(type="network", path=f"/var/run/netns/{self.pod}")
        return pod

    def _published(self, interface: str) -> bool:
        listed = self.api.query("GET", "/apis/resource.k8s.io/v1/resourceslices")
        for device in (entry for item in listed["items"] for entry in item["spec"]["devices"]):
            name = device["attributes"].get("dra.net/ifName", {}).get("string", "")
            self._device_names[name] = device["name"]
        return interface in self._device_names

    def _synchronize(self) -> bool:
        with suppress(BlockingIOError):
            connection, _ = self._listener.accept()
            self.runtime = RuntimeSocket(connection)
            return True
        return False

    def _register(self) -> bool:
        """Register what is in the registry, as the kubelet does, without its delays."""
        for path in self.registry.glob("*.sock"):
            with grpc.insecure_channel(f"unix:{path}") as channel, suppress(grpc.RpcError):
                info = _call(channel, "GetInfo", InfoRequest(), PluginInfo)
                done = RegistrationStatus(plugin_registered=True)
                _call(channel, "NotifyRegistrationStatus", done, RegistrationStatusResponse)
                self._channel = grpc.insecure_channel(f"unix:{info.endpoint}")
                return True
        return False


def kubelet_call(channel: grpc.Channel, verb: str, claim: Mapping[str, str]) -> float:
    """Call NodePrepareResources or NodeUnprepareResources; return the seconds it took."""
    call = channel.unary_unary(
        SERVICE.format(verb),
        getattr(dra_v1_pb2, f"Node{verb}ResourcesRequest").SerializeToString,
        getattr(dra_v1_pb2, f"Node{verb}ResourcesResponse").FromString,
    )
    claims = [dra_v1_pb2.Claim(**claim)]
    request = getattr(dra_v1_pb2, f"Node{verb}ResourcesRequest")(claims=claims)
    begin = time.perf_counter()
    answer = call(request, timeout=CALL_S)
    seconds = time.perf_counter() - begin
    errors = [entry.error for entry in answer.claims.values() if entry.error]
    assert not errors, errors
    return seconds


def own_driver(nics: int, name: str = "ours", shim: Sequence[str] = ("dra-shim",)) -> Driver:
    """Return this driver, two processes; `shim` is the command of one."""
    root = Path(f"/run/bench-{name}")
    state, run, nri = root / "state", root / "run", root / "nri.sock"
    (state / "allocations").mkdir(parents=True, exist_ok=True)
    (root / "cdi").mkdir(parents=True, exist_ok=True)
    shim = (
        *(*shim, "run", f"--hostname-override={NODE}", f"--kubelet-root-dir={root}/kubelet"),
        *("--filter=", f"--state-dir={state}", f"--run-dir={run}", "--bind-address=127.0.0.1:9177"),
        "--log-format=json",
    )
    plugin = (
        *("dranet-nri", "run", f"--nri-socket={nri}", f"--allocations-dir={state}/allocations"),
        *(f"--run-dir={run}", f"--cdi-dir={root}/cdi", "--log-format=json"),
    )
    return Driver(name, root, nri, {"dra-shim": shim, "dranet-nri": plugin}, nics)


def peer(nics: int, name: str = "peer") -> Driver:
    """Return the peer, with the level of logging of its manifests."""
    root = Path(f"/run/bench-{name}")
    command = (
        *(PEER, "--v=4", f"--hostname-override={NODE}", f"--kubelet-root-dir={root}/kubelet"),
        *("--cloud-provider-hint=NONE", "--filter=", f"--db-path={root}/dranet.db"),
        "--bind-address=127.0.0.1:9177",
    )
    return Driver(name, root, PEER_NRI, {PEER: command}, nics)


def addresses(number: int) -> tuple[str, str, str, str]:
    """Return the IPv4 and IPv6 address of a NIC, the network of its route, and the gateway."""
    network = f"10.{100 + number}"
    return f"{network}.0.5/24", f"fd00:{number + 1:x}::5/64", f"{network}.1.0/24", f"{network}.0.1"


def drift(longest_s: float) -> None:
    """Wait for a random time, so that no side always starts at the same point of a grace period."""
    time.sleep(random.uniform(0, longest_s))


def process_cpu(pid: int) -> float:
    """Return the seconds of CPU that a process took so far."""
    return time.clock_gettime(~pid << 3 | 2)  # CPUCLOCK_SCHED of the process (posix-timers.h)


def _call(channel: grpc.Channel, method: str, request: Any, response: Any) -> Any:
    serialize = type(request).SerializeToString
    call = channel.unary_unary(f"{REGISTRATION}{method}", serialize, response.FromString)
    return call(request, timeout=2.0)
