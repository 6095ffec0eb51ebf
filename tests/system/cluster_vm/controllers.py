"""Controllers of jobs on the node of the cluster: processes with their own CRDs and webhooks.

A controller runs beside the kubelet, not in a pod. It reaches the API server as the node does, and
the API server reaches its webhooks as it reaches the kubelet.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from tests.box.target import checked
from tests.box.waiting import wait_until
from tests.system.cluster.api import Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.crds import apply_crds
from tests.system.cluster.node import Node

HEALTH_PORT: Final = 8081
WEBHOOK_PORT: Final = 9443
LIMIT_S: Final = 120.0
WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1"
# As the controllers' webhooks name it. Its address leads nowhere: the uplink of the node takes the
# port of a call alone (tests/system/cluster/uplink.py).
SERVICE: Final = f"""
apiVersion: v1
kind: Namespace
metadata: {{name: system}}
---
apiVersion: v1
kind: Service
metadata: {{name: webhook-service, namespace: system}}
spec:
  ports: [{{port: {WEBHOOK_PORT}}}]
"""
# Ends well once all URLs are served. A webhook that gets no review says so with status 200.
SERVED: Final = """
import ssl, sys, urllib.request
for url in sys.argv[1:]:
    urllib.request.urlopen(url, timeout=10, context=ssl._create_unverified_context())
"""


@dataclass(frozen=True, slots=True)
class Controller:
    """How a controller is started.

    Attributes:
        name: in tests/system/cluster/controllers.txt.
        flags: of its command line.
        environment: of its process.
        configuration: the file that its flag --config names; none if empty.
        ready: the URL that says 200 once it serves.
        reviewed: resources that its webhooks review; empty for all of its webhooks.
    """

    name: str
    flags: tuple[str, ...]
    ready: str
    environment: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    reviewed: frozenset[str] = frozenset()


def configuration(version: str, **more: object) -> dict[str, Any]:
    """Return a configuration: certificates of the tests for its webhooks, no leader election."""
    return {
        "apiVersion": version,
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f":{HEALTH_PORT}"},
        "internalCertManagement": {"enable": False},
        "leaderElection": {"leaderElect": False},
        "metrics": {"bindAddress": "0"},
        "webhook": {"port": WEBHOOK_PORT},
        **more,
    }


READY: Final = f"http://127.0.0.1:{HEALTH_PORT}/readyz"
CONTROLLERS: Final = {
    controller.name: controller
    for controller in (
        Controller(
            "mpi-operator",
            ("--lock-namespace=default", "--kube-api-qps=50", "--kube-api-burst=100"),
            "http://127.0.0.1:8080/healthz",
        ),
        Controller(
            "jobset", (), READY, configuration=configuration("config.jobset.x-k8s.io/v1alpha1")
        ),
        Controller(
            "leaderworkerset",
            (),
            READY,
            configuration=configuration("config.lws.x-k8s.io/v1alpha1"),
        ),
        Controller(
            "kueue",
            (),
            READY,
            configuration=configuration(
                "config.kueue.x-k8s.io/v1beta2",
                featureGates={"VisibilityOnDemand": False},
                integrations={"frameworks": ["batch/job"]},
            ),
            reviewed=frozenset(
                {"clusterqueues", "cohorts", "jobs", "resourceflavors", "workloads"}
            ),
        ),
        Controller(
            "kuberay",
            (
                f"--health-probe-bind-address=:{HEALTH_PORT}",
                "--metrics-addr=:8083",
                "--enable-leader-election=false",
            ),
            READY,
            # The image of the tests has no Ray, so nothing answers a probe.
            {"ENABLE_INIT_CONTAINER_INJECTION": "false", "ENABLE_PROBES_INJECTION": "false"},
        ),
    )
}


@contextmanager
def running(
    cluster: ControlPlane, node: Node, controller: Controller, programs: Path, manifests: Path
) -> Iterator[None]:
    """Have a controller at work. Its CRDs stay: their deletion takes long.

    Args:
        cluster: whose API server it uses as an administrator.
        node: where it runs.
        controller: which.
        programs: the directory of the controllers' programs.
        manifests: the directory of their CRDs and webhooks.
    """
    apply_crds(cluster, manifests / controller.name)
    program = node.give(programs / controller.name)
    flags = list(controller.flags)
    if controller.configuration:
        _write_certificates(cluster, node)
        path = f"/run/{controller.name}.json"
        text = json.dumps(controller.configuration)
        checked(node, "sh", "-ec", 'printf %s "$1" >"$0"', path, text)
        flags.append(f"--config={path}")
    environment = {"KUBECONFIG": "/io/shim.kubeconfig", **controller.environment}
    assignments = [f"{name}={value}" for name, value in environment.items()]
    start = f'"$@" >>/io/{controller.name}.log 2>&1 & echo $!'
    pid = checked(node, "sh", "-c", start, "-", "env", *assignments, program, *flags).strip()
    webhooks = list(_webhooks(controller, manifests))
    paths = [_path(webhook) for document in webhooks for webhook in document["webhooks"]]
    urls = [controller.ready, *(f"https://127.0.0.1:{WEBHOOK_PORT}{path}" for path in paths)]
    try:
        wait_until(f"{controller.name} to serve", lambda: _serves(node, urls), LIMIT_S)
        for document in webhooks:
            _register(cluster, document)
        yield
    finally:
        for document in webhooks:
            name = document["metadata"]["name"]
            cluster.kubectl("delete", document["kind"], name, "--ignore-not-found")
        checked(node, "sh", "-c", 'kill "$0"', pid)


def _serves(node: Node, urls: list[str]) -> bool:
    return node.run("python3", "-c", SERVED, *urls).exit_code == 0


def _write_certificates(cluster: ControlPlane, node: Node) -> None:
    """Give the node a server's certificate, where all the controllers look for it."""
    cluster.kubectl("apply", "--filename=-", stdin=SERVICE)
    identity = cluster.serving_identity("webhooks", "DNS:webhook-service.system.svc")
    certificate, key = identity.certificate.read_text(), identity.key.read_text()
    script = """
    for directory in /tmp/k8s-webhook-server/serving-certs /etc/kueue/metrics/certs; do
        mkdir -p $directory
        printf %s "$1" >$directory/tls.crt
        printf %s "$2" >$directory/tls.key
    done
    """
    checked(node, "sh", "-ec", script, "-", certificate, key)


def _webhooks(controller: Controller, manifests: Path) -> Iterator[Object]:
    """Yield the configurations of a controller's webhooks, with a name of its own."""
    path = manifests / f"{controller.name}.webhooks.yaml"
    for document in yaml.safe_load_all(path.read_text()) if path.exists() else ():
        document["metadata"]["name"] = f"{controller.name}-{document['metadata']['name']}"
        document["webhooks"] = [
            webhook
            for webhook in document["webhooks"]
            if not controller.reviewed or controller.reviewed >= _resources(webhook)
        ]
        yield document


def _register(cluster: ControlPlane, document: Object) -> None:
    """Have the API server call webhooks."""
    bundle = base64.b64encode(cluster.authority.read_bytes()).decode()
    webhooks = [
        {
            **webhook,
            "clientConfig": {
                "service": {**webhook["clientConfig"]["service"], "port": WEBHOOK_PORT},
                "caBundle": bundle,
            },
        }
        for webhook in document["webhooks"]
    ]
    kind = f"{document['kind'].lower()}s"
    cluster.api().create(f"{WEBHOOKS}/{kind}", {**document, "webhooks": webhooks})


def _path(webhook: Object) -> str:
    return str(webhook["clientConfig"]["service"]["path"])


def _resources(webhook: Object) -> set[str]:
    """Return the resources that a webhook reviews, without subresources."""
    return {str(name).partition("/")[0] for rule in webhook["rules"] for name in rule["resources"]}
