"""The DaemonSet: each container has what its program needs, and each argument is known to it."""

from __future__ import annotations

import argparse
import importlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from dra_shim.kubeletplugin.sockets import sockets_of
from dra_shim.settings.common import KUBELET_ROOT, STATE
from dra_shim.web.healthz import ANSWER_S
from dranet_nri.kernel.grace_periods import PARAMETER
from dranet_nri.model import DRIVER_NAME
from dranet_nri.settings import CDI, NRI_SOCKET, RCU_PARAMETERS, RUN

ROOT = Path(__file__).parents[2]
MANIFESTS = ROOT / "manifests"
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
PACKAGES = {"dra-shim": "dra_shim", "dranet-nri": "dranet_nri"}
IMAGE = re.compile(r"^ *(?:- )?image: *(\S+)", re.MULTILINE)
FULL_NAME = re.compile(r"[\w-]+(?:\.[\w-]+)+(?:/[\w-]+)+:[\w.-]+")  # registry, path and tag
MIB = {"Mi": 1, "Gi": 1024}


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


(DAEMON_SET,) = documents(MANIFESTS / "base/daemonset.yaml")
POD = DAEMON_SET["spec"]["template"]["spec"]
SHIM, PLUGIN = POD["containers"]
VOLUMES = {volume["name"]: volume for volume in POD["volumes"]}


def mounts(container: Any, *, writable: bool) -> dict[str, str]:
    """Return where a container sees what of the host: path inside to path on the host."""
    return {
        mount["mountPath"]: VOLUMES[mount["name"]]["hostPath"]["path"]
        for mount in container["volumeMounts"]
        if "hostPath" in VOLUMES[mount["name"]] and mount.get("readOnly", False) is not writable
    }


def same(*paths: Path) -> dict[str, str]:
    return {str(path): str(path) for path in paths}


@pytest.mark.parametrize(
    ("container", "added"),
    [
        pytest.param(SHIM, None, id="the shim"),
        pytest.param(
            PLUGIN, ["NET_ADMIN", "NET_BROADCAST", "NET_RAW", "SYS_ADMIN"], id="the plugin"
        ),
    ],
)
def test_container_has_the_documented_capabilities(container: Any, added: Any) -> None:
    given = {"drop": ["ALL"]} | ({"add": added} if added else {})

    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": given,
    }


def test_plugin_gets_the_node_addresses() -> None:
    assert PLUGIN["env"] == [
        {"name": "NODE_ADDRESSES", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIPs"}}}
    ]


def test_containers_have_seccomp_apparmor_and_read_only_root() -> None:
    assert POD["securityContext"] == {
        "runAsUser": 0,
        "runAsGroup": 0,
        "seccompProfile": {"type": "RuntimeDefault"},
        "seLinuxOptions": {"type": "spc_t"},
    }
    assert not {"hostPID", "hostIPC", "shareProcessNamespace", "initContainers"} & POD.keys()


def test_containers_write_only_their_directories() -> None:
    sockets = sockets_of(KUBELET_ROOT, DRIVER_NAME)

    assert mounts(SHIM, writable=True) == same(
        sockets.registration.parent, sockets.service.parent, STATE
    )
    assert mounts(PLUGIN, writable=True) == {
        **same(NRI_SOCKET.parent, CDI, RUN),
        "/host/proc/sys/net": "/proc/sys/net",
        f"/host/rcu/{PARAMETER}": f"{RCU_PARAMETERS}/{PARAMETER}",
    }


def test_flags_of_the_plugin_name_its_mounts() -> None:
    flags = dict(argument.split("=") for argument in PLUGIN["args"])
    mounted = mounts(PLUGIN, writable=True)

    assert f"{flags['--proc']}/sys/net" in mounted
    assert f"{flags['--rcu-parameters']}/{PARAMETER}" in mounted


def test_containers_read_the_records_of_the_other() -> None:
    assert mounts(SHIM, writable=False) == same(RUN)
    assert mounts(PLUGIN, writable=False) == same(STATE, Path("/var/run/netns"))


def test_only_the_shim_has_a_token() -> None:
    (account, *_) = documents(MANIFESTS / "base/access.yaml")
    token = next(name for name, volume in VOLUMES.items() if "projected" in volume)
    having = [
        container["name"]
        for container in POD["containers"]
        if token in str(container["volumeMounts"])
    ]

    assert having == ["dranet"]
    assert (account["kind"], account["automountServiceAccountToken"]) == ("ServiceAccount", False)
    assert POD["automountServiceAccountToken"] is False


def test_namespaces_of_later_pods_are_visible() -> None:
    (netns,) = (mount for mount in PLUGIN["volumeMounts"] if mount["name"] == "netns")

    assert netns["mountPropagation"] == "HostToContainer"


@pytest.mark.parametrize(
    "line",
    [
        *((*container["command"], *container["args"]) for container in (SHIM, PLUGIN)),
        *(tuple(PLUGIN[f"{kind}Probe"]["exec"]["command"]) for kind in ("startup", "readiness")),
    ],
    ids=" ".join,
)
def test_flags_of_the_containers_exist(line: tuple[str, ...]) -> None:
    program, command, *flags = line
    parser = argparse.ArgumentParser(exit_on_error=False)
    importlib.import_module(f"{PACKAGES[program]}.commands.{command}").add_flags(parser)

    parser.parse_args(flags)


@pytest.mark.parametrize("kind", ["startup", "liveness", "readiness"])
def test_probes_of_the_shim_wait_for_its_three_checks(kind: str) -> None:
    assert SHIM[f"{kind}Probe"].get("timeoutSeconds", 1) > 3 * ANSWER_S  # a second by default


def test_update_never_runs_two_pods_on_a_node() -> None:
    assert DAEMON_SET["spec"]["updateStrategy"]["rollingUpdate"]["maxSurge"] == 0
    assert POD["priorityClassName"] == "system-node-critical"
    assert POD["tolerations"] == [{"operator": "Exists"}]


@pytest.mark.parametrize(
    ("container", "budget"), [(PLUGIN, 44), (SHIM, 60)], ids=["the plugin", "the shim"]
)
def test_resource_requests_cover_the_budget(container: Any, budget: int) -> None:
    request, most = (container["resources"][kind]["memory"] for kind in ("requests", "limits"))

    assert budget <= int(request[:-2]) * MIB[request[-2:]] <= budget * 1.1
    assert int(most[:-2]) * MIB[most[-2:]] >= 4 * budget


def test_names_and_labels_match_dranet() -> None:
    assert (DAEMON_SET["metadata"]["name"], SHIM["name"]) == ("dranet", "dranet")
    assert DAEMON_SET["spec"]["selector"] == {"matchLabels": {"app": "dranet"}}


def test_classes_of_users_are_not_replaced() -> None:
    names = {
        document["metadata"]["name"] for document in documents(MANIFESTS / "base/classes.yaml")
    }

    assert {name.partition(".")[2] for name in names} == {DRIVER_NAME}


def test_images_have_this_version() -> None:
    (base,) = documents(MANIFESTS / "base/kustomization.yaml")

    assert base["images"] == [{"name": "localhost/dranet-nri", "newTag": VERSION}]
    assert [
        path for path in MANIFESTS.rglob("*.yaml") if ":latest" in path.read_text()
    ] == []  # fmt: skip


def test_images_of_examples_have_full_names() -> None:
    examples = [*MANIFESTS.glob("examples/**/*.yaml"), ROOT / "README.md"]
    images = {image for path in examples for image in IMAGE.findall(path.read_text())}

    assert len(images) >= 4
    assert [image for image in images if not FULL_NAME.fullmatch(image)] == []


def test_runtime_snippets_are_valid() -> None:
    nri = "io.containerd.nri.v1.nri"
    old = tomllib.loads((MANIFESTS / "node/containerd/config-1.7.toml").read_text())
    new = tomllib.loads((MANIFESTS / "node/containerd/config-2.toml").read_text())
    crio = tomllib.loads((MANIFESTS / "node/crio/10-dranet.conf").read_text())

    assert [text["plugins"][nri]["disable"] for text in (old, new)] == [False, False]
    assert old["plugins"]["io.containerd.grpc.v1.cri"]["enable_cdi"] is True
    assert str(CDI) in old["plugins"]["io.containerd.grpc.v1.cri"]["cdi_spec_dirs"]
    assert crio["crio"]["nri"]["enable_nri"] is True


@pytest.mark.parametrize(
    "path",
    [*MANIFESTS.glob("node/networkmanager/*"), *MANIFESTS.glob("node/systemd-networkd/*")],
    ids=lambda path: path.name,
)
def test_snippets_do_not_match_nics_by_driver(path: Path) -> None:
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]

    assert len(lines) > 1
    assert "driver" not in str(lines).lower()
