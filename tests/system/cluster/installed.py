"""An installation of manifests/ in a control plane, and the API server with a shim's token."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from dra_shim.kubeapi import ApiClient, HttpClient, in_cluster
from tests.system.cluster.api import Object
from tests.system.cluster.control_plane import ControlPlane

MANIFESTS: Final = Path(__file__).parents[3] / "manifests"
BASE: Final = MANIFESTS / "base"
SPACE: Final = "/api/v1/namespaces/kube-system"
LABEL: Final = "test=shim"  # of pods of ours
T = TypeVar("T")


class Installed:
    """The base, applied. No kubelet runs the DaemonSet's pods."""

    def __init__(self, cluster: ControlPlane, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory

    def apply(self, what: Path = BASE) -> None:
        """Have kubectl apply a kustomization."""
        self._cluster.kubectl("apply", f"--kustomize={what}")

    def remove(self) -> None:
        """Delete all, also pods that no kubelet ends."""
        kubectl = self._cluster.kubectl
        kubectl("delete", f"--kustomize={BASE}", "--ignore-not-found")
        for label in ("app=dranet", LABEL):
            kubectl("delete", "pods", "--namespace=kube-system", f"--selector={label}",
                    "--grace-period=0", "--force")  # fmt: skip

    def daemon_set(self) -> Object:
        """Return the DaemonSet."""
        return self._cluster.api().get("/apis/apps/v1/namespaces/kube-system/daemonsets/dranet")

    def shim(self, node: str = "") -> Shim:
        """Return the API server as a pod of the DaemonSet sees it that is on this node.

        The pod is one of its template that no update takes away, and with it its token. Without a
        node the token is the service account's own.
        """
        spec: dict[str, Any] = {"expirationSeconds": 3600}
        if node:
            pod = {
                "metadata": {"name": f"shim-{node}", "labels": dict([LABEL.split("=")])},
                "spec": self.daemon_set()["spec"]["template"]["spec"] | {"nodeName": node},
            }
            made = self._cluster.api().create(f"{SPACE}/pods", pod)["metadata"]
            reference = {"name": made["name"], "uid": made["uid"]}
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod"} | reference
        path = f"{SPACE}/serviceaccounts/dranet/token"
        answer = self._cluster.api().create(path, {"spec": spec})
        return Shim(self._cluster, self._directory / (node or "none"), answer["status"]["token"])


class Shim:
    """The API server by a token that lies where the kubelet would put it.

    Attributes:
        token: of the shim's service account.
    """

    def __init__(self, cluster: ControlPlane, account: Path, token: str) -> None:
        access = json.loads(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
        server = urlsplit(access["server"])
        account.mkdir(exist_ok=True)
        (account / "token").write_text(token)
        (account / "ca.crt").write_bytes(b64decode(access["certificate-authority-data"]))
        self.token = token
        self._account = account
        self._environ = {
            "KUBERNETES_SERVICE_HOST": str(server.hostname),
            "KUBERNETES_SERVICE_PORT": str(server.port),
        }

    def asks(self, work: Callable[[ApiClient], Awaitable[T]]) -> T:
        """Return what work gets, given the shim's own client."""

        async def scenario() -> T:
            api = ApiClient(HttpClient(in_cluster(self._environ, self._account)))
            try:
                return await work(api)
            finally:
                await api.close()

        return asyncio.run(scenario())
