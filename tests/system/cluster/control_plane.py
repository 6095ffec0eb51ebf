"""A real Kubernetes control plane on this machine's loopback, for as long as its tests run.

etcd, kube-apiserver, kube-controller-manager and kube-scheduler: each its own user, with RBAC and
without leader election, all else as released. What they keep and log is in one directory.
"""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Generator, Mapping
from functools import partial
from pathlib import Path
from typing import Final, Self

from tests.box.waiting import SLOWDOWN
from tests.system.cluster.api import HOST, Api, answers
from tests.system.cluster.gateway import GATEWAY, SERVICE
from tests.system.cluster.pki import Authority, Identity
from tests.system.cluster.program import Port, Program

SERVICES: Final = "10.96.0.0/16"  # the addresses of services; nobody routes them
ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
NAMES: Final = (
    *(f"IP:{address}" for address in (HOST, GATEWAY, SERVICE)),
    "DNS:localhost",
    "DNS:kubernetes.default.svc",
)
# Served by every release so far, and on by default in none from 1.34 on.
BETAS: Final = "resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true"
KUBECTL_DEADLINE_S: Final = 60 * SLOWDOWN
Flags = dict[str, str | int | Path]


class ControlPlane:
    """One control plane, started and stopped by a `with` block.

    What does not get ready raises ProgramError, with the end of its log.

    Args:
        programs: The directory of the five programs, kubectl among them.
        directory: Where files and logs go; it exists.
        gates: Feature gates that shall differ from those of the release.
    """

    def __init__(
        self, programs: Path, directory: Path, gates: Mapping[str, bool] | None = None
    ) -> None:
        self._directory = directory
        self._programs = programs
        self._gates = ",".join(f"{name}={str(on).lower()}" for name, on in (gates or {}).items())
        self._authority = Authority(directory)
        self._server = self._authority.issue_server("server", NAMES)
        self._ports = {
            name: Port() for name in ("etcd", "peers", "api", "controllers", "scheduler")
        }
        self._admin = self._authority.issue_client("admin", "system:masters")
        self._kubeconfig = self._write_kubeconfig("admin", self._admin)
        accounts = self._authority.key_pair("service-accounts")
        self._etcd = self._program("etcd", self._etcd_flags())
        self._api_server = self._program("kube-apiserver", self._api_flags(*accounts))
        self._controllers = self._program(
            "kube-controller-manager", self._controller_flags(accounts[0])
        )
        self._scheduler = self._program(
            "kube-scheduler", self._client_flags("kube-scheduler", "scheduler")
        )

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop()

    def api(self, token: str = "") -> Api:
        """Return a client of the API server: the administrator's, or that of a token's user."""
        who = token or self._admin
        return Api(self.api_port, self._authority.certificate, who)

    @property
    def kubeconfig(self) -> Path:
        """Return the administrator's."""
        return self._kubeconfig

    @property
    def api_port(self) -> int:
        """Return the port of the loopback that the API server listens at."""
        return self._ports["api"].number

    @property
    def authority(self) -> Path:
        """Return the certificate of the authority that all of the cluster trust."""
        return self._authority.certificate

    @property
    def nodes(self) -> Path:
        """Return the Unix socket of the proxy that the API server reaches kubelets through."""
        return self._directory / "nodes.sock"

    def kubeconfig_of(self, user: str, *groups: str, address: str) -> Path:
        """Return the kubeconfig of a new user, who finds the API server under this address."""
        identity = self._authority.issue_client(user, *groups)
        return self._write_kubeconfig(user.replace(":", "-"), identity, address)

    def serving_identity(self, name: str, *hosts: str) -> Identity:
        """Return the certificate of a server that the API server trusts under these names."""
        return self._authority.issue_server(name, hosts)

    def stop_api(self) -> None:
        """Have no API server; etcd and the controllers go on."""
        self._api_server.stop()

    def start_api(self) -> None:
        """Have it again."""
        ready = partial(answers, self.api_port, "/readyz", self._authority.certificate)
        self._api_server.start(ready)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl as the administrator; return what it printed.

        Raises:
            RuntimeError: It failed; the message has what it said.
        """
        program = str(self._programs / "kubectl")
        command = (program, f"--kubeconfig={self._kubeconfig}", *arguments)
        done = subprocess.run(
            command,
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=KUBECTL_DEADLINE_S,
        )
        if done.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def tails(self) -> Generator[tuple[str, str]]:
        """Return the end of each log: name of the program and text."""
        for program in self._all():
            yield program.name, program.tail()

    def _start(self) -> None:
        ca = self._authority.certificate
        number = {name: port.number for name, port in self._ports.items()}
        self._etcd.start(partial(answers, number["etcd"], "/health"))
        self.start_api()
        self._controllers.start(partial(answers, number["controllers"], "/healthz", ca))
        self._scheduler.start(partial(answers, number["scheduler"], "/readyz", ca))

    def _stop(self) -> None:
        for program in reversed(self._all()):
            program.stop()
        for port in self._ports.values():
            port.release()

    def _all(self) -> tuple[Program, ...]:
        return self._etcd, self._api_server, self._controllers, self._scheduler

    def _program(self, name: str, flags: Flags) -> Program:
        flag_arguments = (f"--{flag}={value}" for flag, value in flags.items())
        return Program(self._directory / f"{name}.log", (self._programs / name, *flag_arguments))

    def _url(self, port: str, scheme: str = "https") -> str:
        return f"{scheme}://{HOST}:{self._ports[port].number}"

    def _etcd_flags(self) -> Flags:
        return {
            "data-dir": self._directory / "etcd",
            "listen-client-urls": self._url("etcd", "http"),
            "advertise-client-urls": self._url("etcd", "http"),
            "listen-peer-urls": self._url("peers", "http"),
            "initial-advertise-peer-urls": self._url("peers", "http"),
            "initial-cluster": f"default={self._url('peers', 'http')}",
            "socket-reuse-port": "true",
            "unsafe-no-fsync": "true",  # what survives the machine is of no use
            "log-level": "warn",
        }

    def _serving_flags(self, port: str) -> Flags:
        return {
            "bind-address": HOST,
            "secure-port": self._ports[port].number,
            "permit-port-sharing": "true",
            "tls-cert-file": self._server.certificate,
            "tls-private-key-file": self._server.key,
            "client-ca-file": self._authority.certificate,
            "feature-gates": self._gates,
        }

    def _api_flags(self, account_key: Path, account_public_key: Path) -> Flags:
        return self._serving_flags("api") | {
            "etcd-servers": self._url("etcd", "http"),
            # Nobody speaks for others: no certificate has that name.
            "requestheader-client-ca-file": self._authority.certificate,
            "requestheader-allowed-names": "front-proxy",
            "requestheader-username-headers": "X-Remote-User",
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "runtime-config": BETAS,
            "service-account-issuer": ISSUER,
            "service-account-key-file": account_public_key,
            "service-account-signing-key-file": account_key,
            "service-cluster-ip-range": SERVICES,
            "endpoint-reconciler-type": "none",  # which refuses an address of the loopback
            "egress-selector-config-file": self._write_egress(),
            "kubelet-client-certificate": self._admin.certificate,
            "kubelet-client-key": self._admin.key,
        }

    def _write_egress(self) -> Path:
        """Have the API server reach nodes through a proxy: their addresses mean nothing here."""
        proxy = {"proxyProtocol": "HTTPConnect", "transport": {"uds": {"udsName": str(self.nodes)}}}
        document = {
            "apiVersion": "apiserver.k8s.io/v1beta1",
            "kind": "EgressSelectorConfiguration",
            "egressSelections": [{"name": "cluster", "connection": proxy}],
        }
        path = self._directory / "egress.json"
        path.write_text(json.dumps(document))
        return path

    def _client_flags(self, name: str, port: str) -> Flags:
        user = f"system:{name}"
        kubeconfig = self._write_kubeconfig(name, self._authority.issue_client(user))
        return self._serving_flags(port) | {
            "kubeconfig": kubeconfig,
            "authentication-kubeconfig": kubeconfig,
            "authorization-kubeconfig": kubeconfig,
            "leader-elect": "false",
        }

    def _controller_flags(self, account_key: Path) -> Flags:
        return self._client_flags("kube-controller-manager", "controllers") | {
            "service-account-private-key-file": account_key,
            "root-ca-file": self._authority.certificate,
            "use-service-account-credentials": "true",
            # Made-up nodes say once that they are ready. A busy machine needs its time.
            "node-monitor-grace-period": "10m",
        }

    def _write_kubeconfig(self, name: str, identity: Identity, address: str = HOST) -> Path:
        cluster = {
            "server": f"https://{address}:{self.api_port}",
            "certificate-authority-data": _text(self._authority.certificate),
        }
        user = {
            "client-certificate-data": _text(identity.certificate),
            "client-key-data": _text(identity.key),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test",
        }
        path = self._directory / f"{name}.kubeconfig"
        path.write_text(json.dumps(document))
        return path


def _text(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
