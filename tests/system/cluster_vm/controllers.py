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

from tests.box.place import checked
from tests.box.waiting import wait_until
from tests.system.cluster.api import Object
from tests.system.cluster.control_plane import ControlPlane
from tests.system.cluster.gateway import ADDRESS
from tests.system.cluster.node import Node

HEALTH_PORT: Final = 8081
WEBHOOK_PORT: Final = 9443
WEBHOOKS: Final = "/apis/admissionregistration.k8s.io/v1"
# Prints the HTTP status of a path of this machine.
STATUS: Final = """
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=10).status)
except OSError as error:
    print(error)
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
    crds = f"--filename={manifests / controller.name}"
    cluster.kubectl("apply", "--server-side", "--force-conflicts", crds)
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", crds)
    program = node.give(programs / controller.name)
    flags = list(controller.flags)
    if controller.configuration:
        _write_certificates(cluster, node)
        path = f"/run/{controller.name}.json"
        text = json.dumps(controller.configuration)
        checked(node, "sh", "-ec", 'printf %s "$1" >"$0"', path, text)
        flags.append(f"--config={path}")
    environment = {"KUBECONFIG": "/io/shim.kubeconfig", **controller.environment}
    words = [f"{name}={value}" for name, value in environment.items()]
    start = f'"$@" >>/io/{controller.name}.log 2>&1 & echo $!'
    pid = checked(node, "sh", "-c", start, "-", "env", *words, program, *flags).strip()
    names: list[str] = []
    try:
        wait_until(f"{controller.name} to serve", lambda: _serves(node, controller), 120)
        names = _register(cluster, controller, manifests)
        yield
    finally:
        for name in names:
            cluster.api().delete(f"{WEBHOOKS}/{name}")
        checked(node, "sh", "-c", 'kill "$0"', pid)


def _serves(node: Node, controller: Controller) -> bool:
    return checked(node, "python3", "-c", STATUS, controller.ready).strip() == "200"


def _write_certificates(cluster: ControlPlane, node: Node) -> None:
    """Give the node a server's certificate, where all the controllers look for it."""
    identity = cluster.serving_identity("webhooks", f"IP:{ADDRESS}")
    certificate, key = identity.certificate.read_text(), identity.key.read_text()
    script = """
    for directory in /tmp/k8s-webhook-server/serving-certs /etc/kueue/metrics/certs; do
        mkdir -p $directory
        printf %s "$1" >$directory/tls.crt
        printf %s "$2" >$directory/tls.key
    done
    """
    checked(node, "sh", "-ec", script, "-", certificate, key)


def _register(cluster: ControlPlane, controller: Controller, manifests: Path) -> list[str]:
    """Have the API server call the webhooks; return the paths of their configurations."""
    path = manifests / f"{controller.name}.webhooks.yaml"
    if not path.exists():
        return []
    bundle = base64.b64encode(cluster.authority.read_bytes()).decode()
    names = []
    for document in yaml.safe_load_all(path.read_text()):
        document["metadata"]["name"] = f"{controller.name}-{document['metadata']['name']}"
        document["webhooks"] = [
            _reached(webhook, bundle)
            for webhook in document["webhooks"]
            if not controller.reviewed or controller.reviewed >= _resources(webhook)
        ]
        kind = f"{document['kind'].lower()}s"
        cluster.api().create(f"{WEBHOOKS}/{kind}", document)
        names.append(f"{kind}/{document['metadata']['name']}")
    return names


def _reached(webhook: Object, bundle: str) -> Object:
    """Return a webhook that is called at the node, in the place of a service."""
    path = webhook["clientConfig"]["service"]["path"]
    url = f"https://{ADDRESS}:{WEBHOOK_PORT}{path}"
    return {**webhook, "clientConfig": {"url": url, "caBundle": bundle}}


def _resources(webhook: Object) -> set[str]:
    """Return the resources that a webhook reviews, without subresources."""
    return {str(name).partition("/")[0] for rule in webhook["rules"] for name in rule["resources"]}
