"""The base with each overlay or component, as kubectl renders it. No server is involved."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.system.cluster.installed import MANIFESTS
from tests.system.cluster.policies import matching, usernames

DEADLINE_S = 60
NAME = "netns-state-dir"
WHERE = "/run/containerd/io.containerd.grpc.v1.cri/netns"
# A flag as dranet's users give it: to the first container, whatever its name.
OF_USERS = """
patches:
- target: {kind: DaemonSet, name: dranet}
  patch: |
    - op: add
      path: /spec/template/spec/containers/0/args/-
      value: --filter=
"""
INSTALLATIONS = [
    ("base",),
    *((f"overlays/{path.name}",) for path in sorted(MANIFESTS.glob("overlays/*"))),
    *(("base", f"components/{path.name}") for path in sorted(MANIFESTS.glob("components/*"))),
]


def built(programs: Path, directory: Path, *what: str, **more: str) -> list[Any]:
    """Return an installation, with components on top, and with a flag from its user.

    More is what else its user says of all of it: namespace and the like.
    """
    installation, *components = (f"manifests/{entry}" for entry in what)
    shutil.copytree(MANIFESTS, directory / "manifests")
    lists = yaml.safe_dump({"resources": [installation], "components": components, **more})
    (directory / "kustomization.yaml").write_text(lists + OF_USERS)
    done = subprocess.run(
        (programs / "kubectl", "kustomize", directory),
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def pod_of(documents: list[Any]) -> Any:
    (daemon_set,) = (document for document in documents if document["kind"] == "DaemonSet")
    return daemon_set["spec"]["template"]["spec"]


@pytest.mark.parametrize("what", INSTALLATIONS, ids=" ".join)
def test_flag_of_the_first_container_is_set_on_the_shim(
    programs: Path, tmp_path: Path, what: tuple[str, ...]
) -> None:
    containers = pod_of(built(programs, tmp_path, *what))["containers"]

    assert [container["name"] for container in containers] == ["dranet", "nri"]
    assert [container["name"] for container in containers if "--filter=" in container["args"]] == [
        "dranet"
    ]


@pytest.mark.parametrize("what", INSTALLATIONS, ids=" ".join)
def test_installation_in_another_namespace_is_consistent(
    programs: Path, tmp_path: Path, what: tuple[str, ...]
) -> None:
    documents = built(programs, tmp_path, *what, namespace="nics")

    assert usernames(documents) == ["system:serviceaccount:nics:dranet"]
    assert matching(documents, *usernames(documents)) == [True, True]
    assert "kube-system" not in str(documents)


@pytest.mark.parametrize(
    "username",
    [
        "system:serviceaccount:kube-system:not-dranet",
        "system:serviceaccount:dranet:default",
        "system:serviceaccount:kube-system:dranet-operator",
        "system:node:dranet",
        "somebody:dranet",
    ],
)
def test_policies_ignore_objects_of_other_drivers(
    programs: Path, tmp_path: Path, username: str
) -> None:
    assert matching(built(programs, tmp_path, "base"), username) == [False, False]


def test_plugin_can_open_namespaces_below_the_state_directory(
    programs: Path, tmp_path: Path
) -> None:
    pod = pod_of(built(programs, tmp_path, "base", "components/netns-state-dir"))
    shim, plugin = (
        {mount["name"]: mount for mount in one["volumeMounts"]} for one in pod["containers"]
    )
    (volume,) = (volume for volume in pod["volumes"] if volume["name"] == NAME)

    assert volume["hostPath"]["path"] == WHERE
    assert plugin[NAME] == plugin["netns"] | {"name": NAME, "mountPath": WHERE}
    assert NAME not in shim
