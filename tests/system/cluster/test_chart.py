"""Helm renders from the chart what the base has, takes dranet's values and refuses what is none."""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_shim.commands import run
from dranet_nri.model.api_names import parse_label
from tests.system.cluster.installed import BASE, MANIFESTS
from tests.system.cluster.policies import matching, usernames

CHART = MANIFESTS / "helm/dranet-nri"
DEADLINE_S = 60
# Values of each kind that dranet's chart has, and ours; and what becomes of them.
ARGS: dict[str, Any] = {
    "filter": "",  # not a flag: dranet's chart takes it for the default
    "dbPath": "/var/run/dranet/x.db",
    "inventoryMinPollInterval": "2s",
    "inventoryPollBurst": 5,
    "moveIBInterfaces": False,
    "webhookURL": "unix:///run/x.sock",
    "profileProvider": "webhook",
    "featureGates": "DRAListTypeAttributes=true",
    "exclude": ["eth*", "0000:8a:*"],
    "uplinkInterfaces": "eth0,bond*",
}
FLAGS = {
    "--db-path=/var/run/dranet/x.db",
    "--inventory-min-poll-interval=2s",
    "--inventory-poll-burst=5",
    "--move-ib-interfaces=false",
    "--webhook-url=unix:///run/x.sock",
    "--profile-provider=webhook",
    "--feature-gates=DRAListTypeAttributes=true",
    "--exclude=eth*",
    "--exclude=0000:8a:*",
    "--uplink-interfaces=eth0,bond*",
}
# A version of resource.k8s.io that a Kubernetes serves where DRA is on; before 1.34 by choice.
SERVED = [("1.32.0", "v1beta1"), ("1.33.4-gke.1", "v1beta1"), ("1.34.0", "v1"), ("1.37.1", "v1")]


def run_helm(helm: Path, *arguments: str) -> tuple[int, str]:
    """Return how helm ended and all it said."""
    done = subprocess.run(
        (helm, *arguments), capture_output=True, text=True, check=False, timeout=DEADLINE_S
    )
    return done.returncode, done.stdout + done.stderr


def templated(helm: Path, *flags: str, **values: Any) -> tuple[int, str]:
    """Return how rendering the chart ended and what came of it."""
    given = (f"--set-json={name}={json.dumps(value)}" for name, value in values.items())
    return run_helm(
        helm, "template", "dranet", str(CHART), "--namespace=kube-system", *flags, *given
    )


def rendered(helm: Path, *flags: str, **values: Any) -> list[Any]:
    """Return what the chart renders, in the order of the base."""
    status, text = templated(helm, *flags, **values)
    assert status == 0, text
    return sorted(filter(None, yaml.safe_load_all(text)), key=identity)


def identity(document: Any) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def daemon_set(documents: list[Any]) -> Any:
    (found,) = (document for document in documents if document["kind"] == "DaemonSet")
    return found["spec"]["template"]["spec"]


def test_chart_renders_the_base(helm: Path, programs: Path) -> None:
    base = subprocess.run(
        (programs / "kubectl", "kustomize", BASE),
        capture_output=True, text=True, check=True, timeout=DEADLINE_S,
    )  # fmt: skip

    assert rendered(helm) == sorted(yaml.safe_load_all(base.stdout), key=identity)


def test_helm_lint_has_no_findings(helm: Path) -> None:
    status, text = run_helm(helm, "lint", "--strict", str(CHART))

    assert status == 0, text


def test_values_of_dranets_chart_become_flags(helm: Path) -> None:
    given = ARGS | {"include": ["wg0"]}
    shim, nri = daemon_set(rendered(helm, args=given, metricsPort=9999, logVerbosity=4))[
        "containers"
    ]

    own = {"--hostname-override=$(NODE_NAME)", "--log-format=json"}
    assert {*shim["args"]} == own | FLAGS | {"--bind-address=:9999", "--v=4", "--include=wg0"}
    assert {"--uplink-interfaces=eth0,bond*", "--include=wg0"} <= {*nri["args"]}
    assert shim["ports"][0]["containerPort"] == 9999
    parser = argparse.ArgumentParser(exit_on_error=False)
    run.add_flags(parser)
    assert parser.parse_args(shim["args"]).exclude == ARGS["exclude"]


def test_values_of_the_plugin_become_flags(helm: Path) -> None:
    values = {
        "socket": "/run/k3s/nri/nri.sock", "vmRuntimes": "*kata*,edera",
        "slaacReadyTimeout": "20s", "dhcpReadyTimeout": "1m30s",
    }  # fmt: skip
    _, nri = daemon_set(rendered(helm, nri=values))["containers"]

    assert {
        "--nri-socket=/run/k3s/nri/nri.sock", "--vm-runtimes=*kata*,edera",
        "--slaac-ready-timeout=20s", "--dhcp-ready-timeout=1m30s",
    } <= {*nri["args"]}  # fmt: skip


@pytest.mark.parametrize("short", [True, False, None])
def test_kernel_parameter_is_mounted_unless_moves_are_not_to_be_short(
    helm: Path, *, short: bool | None
) -> None:
    pod = daemon_set(rendered(helm, nri={"shortMoves": short}))
    _, nri = pod["containers"]

    if short is False:
        assert "--rcu-parameters=keep" in nri["args"]
        assert "rcu" not in {volume["name"] for volume in pod["volumes"]}
        assert "rcu" not in {mount["name"] for mount in nri["volumeMounts"]}
    else:
        assert "--rcu-parameters=/host/rcu" in nri["args"]
        assert "rcu" in {volume["name"] for volume in pod["volumes"]}
        assert "rcu" in {mount["name"] for mount in nri["volumeMounts"]}


def test_kubelet_root_value_becomes_mount_and_flag(helm: Path) -> None:
    pod = daemon_set(rendered(helm, kubeletRootDir="/data/kubelet"))
    shim = pod["containers"][0]

    assert "--kubelet-root-dir=/data/kubelet" in shim["args"]
    assert "/var/lib/kubelet" not in str(pod)
    assert {"/data/kubelet/plugins_registry", "/data/kubelet/plugins/dra.net"} <= {
        mount["mountPath"] for mount in shim["volumeMounts"]
    }


def test_release_with_another_name_is_consistent(helm: Path) -> None:
    documents = rendered(helm, fullnameOverride="nics", nameOverride="nics")

    assert usernames(documents) == ["system:serviceaccount:kube-system:nics"]
    assert matching(documents, *usernames(documents)) == [True, True]
    assert matching(documents, "system:serviceaccount:kube-system:dranet") == [False, False]
    assert daemon_set(documents)["serviceAccountName"] == "nics"


def test_names_of_digits_are_strings(helm: Path) -> None:
    def with_name(name: str) -> str:
        documents = rendered(
            helm, f"--namespace={name}", fullnameOverride=name, nameOverride=name,
            monitoring=dict.fromkeys(("podMonitor", "serviceMonitor", "alerts", "dashboard"), True),
        )  # fmt: skip
        return json.dumps(documents)

    assert with_name("123") == with_name("letters").replace("letters", "123")


@pytest.mark.parametrize("name", ["a" * 53, "my.nics", f"{'a' * 50}.bc"])
def test_service_of_any_release_has_a_valid_name(helm: Path, name: str) -> None:
    values = {"serviceMonitor": True}
    documents = rendered(helm, fullnameOverride=f"{name}-dranet", monitoring=values)
    (service,) = (found for found in documents if found["kind"] == "Service")

    assert parse_label(service["metadata"]["name"]).endswith("-metrics")


def test_labels_of_monitoring_replace_those_of_the_chart(helm: Path) -> None:
    kinds = dict.fromkeys(("podMonitor", "serviceMonitor", "alerts"), True)
    status, text = templated(helm, monitoring=kinds | {"labels": {"app": "prometheus"}})
    found = [document for document in text.split("---\n") if "monitoring.coreos.com" in document]

    assert (status, len(found)) == (0, 3)
    for document in found:
        assert document.count("\n    app: ") == 1
        labels = yaml.safe_load(document)["metadata"]["labels"]
        assert labels == {"app": "prometheus", "k8s-app": "dranet"}


@pytest.mark.parametrize(("kubernetes", "version"), SERVED)
def test_device_classes_have_a_served_version(helm: Path, kubernetes: str, version: str) -> None:
    documents = rendered(helm, f"--kube-version={kubernetes}")
    classes = [document for document in documents if document["kind"] == "DeviceClass"]

    assert len(classes) == 4
    assert {device_class["apiVersion"] for device_class in classes} == {
        f"resource.k8s.io/{version}"
    }


@pytest.mark.parametrize("name", ["nri", "serviceAccount", "args", "podLabels", "resources"])
def test_empty_values_set_no_flags(helm: Path, name: str) -> None:
    containers = daemon_set(rendered(helm, **{name: None}))["containers"]

    assert [container["name"] for container in containers] == ["dranet", "nri"]
    assert all("null" not in str(container["args"]) for container in containers)


def test_labels_and_annotations_are_merged(helm: Path) -> None:
    documents = rendered(helm, podLabels={"team": "net"}, podAnnotations={"a/b": "c"})
    (found,) = (document for document in documents if document["kind"] == "DaemonSet")
    metadata = found["spec"]["template"]["metadata"]

    assert metadata["labels"] == found["metadata"]["labels"] | {"team": "net"}
    assert metadata["annotations"]["a/b"] == "c"


@pytest.mark.parametrize(
    ("name", "value", "said_of"),
    [
        ("flter", "x", "flter"),
        ("args", {"filtr": "x"}, "filtr"),
        ("args", {"dbPath": "/tmp/x"}, "dbPath"),
        ("args", {"inventoryMinPollInterval": "2"}, "inventoryMinPollInterval"),
        ("args", {"cloudProviderHint": "aws"}, "cloudProviderHint"),
        ("args", {"profileProvider": "webhook"}, "webhookURL"),
        ("args", {"exclude": "eth0"}, "exclude"),
        ("args", {"moveIBInterfaces": "no"}, "moveIBInterfaces"),
        ("image", {"tag": "latest"}, "tag"),
        ("nri", {"rdmaMode": "both"}, "rdmaMode"),
        ("nri", {"socket": "nri.sock"}, "socket"),
        ("args", {"inventoryMaxPollInterval": "0s"}, "inventoryMaxPollInterval"),
        ("metricsPath", "/readyz", "metricsPath"),
        ("image", {"repository": None}, "repository"),
        ("image", {"pullPolicy": None}, "pullPolicy"),
        ("rbac", {"create": None}, "create"),
        ("podLabels", {"app": "x"}, "/podLabels/app"),
        ("podAnnotations", {"kubectl.kubernetes.io/default-container": "x"}, "/podAnnotations"),
        *((name, None, f"missing property '{name}'") for name in ("image", "rbac", "admission")),
        ("kubeletRootDir", None, "kubeletRootDir"),
    ],
)
def test_unknown_value_is_refused_by_name(helm: Path, name: str, value: Any, said_of: str) -> None:
    status, text = templated(helm, **{name: value})

    assert status != 0
    assert said_of in text
