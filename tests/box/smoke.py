"""Smoke tests of a test node, run in every tier."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.box.cri import ContainerSpec, Cri, CriError
from tests.box.runtime import NRI_SOCKET, Runtime

CDI_SPEC = Path("/var/run/cdi/box.json")
GATED = ContainerSpec(cdi_devices=("box.test/nic=one",))


@pytest.mark.every_runtime
def test_pod_lives_and_ends_with_its_own_network(cri: Cri) -> None:
    pod = cri.run_pod("alone", namespace="blue", uid="0c7e")

    container = cri.run_container(pod, spec=ContainerSpec(env={"COLOUR": "blue"}))
    output = cri.exec(container, "/bin/sh", "-c", "echo $COLOUR; ip -o link")
    netns = cri.netns(pod)

    assert cri.pod_ready(pod)
    assert output.exit_code == 0, output.stderr
    assert output.stdout.startswith("blue\n")
    assert "eth0" in output.stdout
    assert cri.pod_address(pod).startswith("10.88.")
    assert netns is not None
    assert netns.exists()
    assert cri.container_state(container) == "CONTAINER_RUNNING"
    cri.stop_pod(pod.sandbox_id)
    cri.remove_pod(pod.sandbox_id)
    assert cri.pods() == ()
    assert not netns.exists()


def test_host_network_pod_has_no_namespace_of_its_own(cri: Cri) -> None:
    pod = cri.run_pod("hostnet", host_network=True)

    assert cri.netns(pod) is None


def test_runtime_listens_for_plugins(runtime: Runtime) -> None:
    assert NRI_SOCKET.is_socket()


@pytest.mark.every_runtime
def test_cdi_device_without_a_spec_is_refused_until_one_appears(cri: Cri) -> None:
    pod = cri.run_pod("gated")
    device = {"name": "one", "containerEdits": {"env": ["NIC=here"]}}
    spec = {"cdiVersion": "0.6.0", "kind": "box.test/nic", "devices": [device]}

    with pytest.raises(CriError, match=r"unresolvable CDI devices box\.test/nic=one"):
        cri.create_container(pod, "early", GATED)
    CDI_SPEC.parent.mkdir(parents=True, exist_ok=True)
    CDI_SPEC.write_text(json.dumps(spec))
    container = cri.run_container(pod, "late", GATED)
    CDI_SPEC.unlink()

    assert cri.exec(container, "/bin/sh", "-c", "echo $NIC").stdout == "here\n"


@pytest.mark.every_runtime
def test_pods_survive_a_runtime_that_is_killed(runtime: Runtime, cri: Cri) -> None:
    pod = cri.run_pod("survivor")
    container = cri.run_container(pod)

    runtime.kill()
    runtime.start()

    with Cri(f"unix://{runtime.socket}") as again:
        assert again.pod_ready(pod)
        assert again.exec(container, "/bin/true").exit_code == 0
