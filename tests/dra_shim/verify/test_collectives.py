"""All-gather and all-reduce of a verification: commands of the ranks, thresholds, and failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from dra_shim.cli import main
from dra_shim.verify.collectives import check_collectives, program_text
from dra_shim.verify.documents import PodRequirements, base_documents, pod_document
from dra_shim.verify.measure import MeasurementPlan, measure
from dra_shim.verify.outputs import LinkOutput, PodFacts, parse_collectives
from dra_shim.verify.remedies import CAUSES
from dra_shim.verify.thresholds import Thresholds
from dra_shim.verify.types import ClaimedNic, CommandResult, Fabric, Line, Outcome, WorkerPod
from dranet_nri.errors import ConfigError
from tests.dra_shim.scheduling.story_nodes import EXAMPLES

LINK = LinkOutput(up=True, mtu=9000, mac="52:54:00:00:00:01", speed_gbit=400)
NICS = tuple(
    ClaimedNic(f"nic{number}", f"net{number}", f"10.9.{number}.1", f"mlx5_{number}", Fabric.ROCE)
    for number in range(2)
)
PODS = tuple(WorkerPod(f"verify-{n}", f"node-{n}", f"10.0.0.{n + 1}", NICS) for n in range(2))
FACTS = PodFacts({"net0": LINK, "net1": LINK})
# Last lines of manifests/examples/scale-out/collectives.py.
RESULT = """    16777216           90.100           70.500
COLLECTIVES_RESULT {"case": "", "ranks": 4, "backend": "%s", "bytes": 16777216, \
"all_gather_gb_s": 90.1, "all_reduce_gb_s": 70.5}
"""
POD = """
kind: Pod
metadata: {annotations: {a: b}, labels: {team: x}}
spec:
  hostIPC: true
  containers:
  - name: own
    image: registry.example/nccl:1
    env: [{name: NCCL_DEBUG, value: INFO}]
    resources: {limits: {cpu: "1"}}
    securityContext: {capabilities: {add: [IPC_LOCK]}}
    volumeMounts: [{name: gib, mountPath: /usr/local/gib}]
  volumes: [{name: gib, hostPath: {path: /home/kubernetes/bin/gib}}]
"""


@dataclass
class Recorded:
    """A runner that answers as recorded.

    Attributes:
        answers: of each pod.
        commands: that each pod ran last.
    """

    answers: Mapping[str, CommandResult]
    commands: dict[str, Sequence[str]] = field(default_factory=dict)

    def run(self, pod: str, command: Sequence[str], limit_s: float) -> CommandResult:
        """Return the pod's answer."""
        self.commands[pod] = command
        return self.answers[pod]


def ended(code: int = 0, *, stdout: str = "", stderr: str = "") -> CommandResult:
    """Return how a command ended."""
    return CommandResult(code, stdout, stderr)


def lines_of(
    first: CommandResult,
    second: CommandResult | None = None,
    thresholds: Mapping[str, float] | None = None,
) -> list[Line]:
    """Return the lines of two pods that answer so."""
    runner = Recorded({"verify-0": first, "verify-1": second or ended()})
    found = check_collectives(
        PODS, (FACTS, FACTS), runner, Thresholds(thresholds or {}), ranks=2, rounds=5
    )
    return list(found)


def test_ranks_of_a_pod_use_the_devices_of_its_claim() -> None:
    runner = Recorded({pod.pod: ended() for pod in PODS})

    list(check_collectives(PODS, (FACTS, FACTS), runner, Thresholds({}), ranks=2, rounds=5))

    for number, pod in enumerate(PODS):
        argv = runner.commands[pod.pod]
        assert "NCCL_IB_HCA==mlx5_0,mlx5_1" in argv
        assert f"--node-rank={number}" in argv
        assert {"--nnodes=2", "--nproc-per-node=2", "--master-addr=10.0.0.1"} <= {*argv}


def test_single_rank_per_pod_starts_without_a_launcher() -> None:
    runner = Recorded({pod.pod: ended() for pod in PODS})

    list(check_collectives(PODS, (FACTS, FACTS), runner, Thresholds({}), ranks=1, rounds=5))

    for number, pod in enumerate(PODS):
        argv = runner.commands[pod.pod]
        expected = {f"RANK={number}", "WORLD_SIZE=2", "LOCAL_RANK=0", "MASTER_ADDR=10.0.0.1"}
        assert expected <= {*argv}
        assert "torch.distributed.run" not in argv


@pytest.mark.parametrize(
    ("backend", "thresholds"),
    [
        # 90 % of 2 NICs of 400 Gbit/s; a fifth of TCP's 10 Gbit/s
        pytest.param("nccl", ["90 GB/s", "90 GB/s"], id="GPUs"),
        pytest.param("gloo", ["0.25 GB/s", "0.25 GB/s"], id="CPUs"),
    ],
)
def test_thresholds_depend_on_the_backend(backend: str, thresholds: list[str]) -> None:
    lines = lines_of(ended(stdout=RESULT % backend))

    assert [(line.check, line.threshold) for line in lines] == list(
        zip(("all-gather", "all-reduce"), thresholds, strict=True)
    )
    assert lines[0].value == f"90.1 GB/s ({backend})"
    assert lines[0].outcome is Outcome.PASSED
    slow = backend == "nccl"
    assert (lines[1].outcome is Outcome.FAILED) is slow
    assert lines[1].remedy == (CAUSES["slow-collective"][1] if slow else "")


def test_highest_default_bar_is_that_of_the_guide() -> None:
    assert Thresholds({}).of_collective("all-reduce", 8 * 200, nccl=True) == pytest.approx(180)
    assert Thresholds({}).of_collective("all-reduce", 3200, nccl=True) == 180
    assert Thresholds({"all-reduce": 300}).of_collective("all-reduce", 3200, nccl=True) == 300


def test_ranks_that_do_not_finish_fail_the_check() -> None:
    error = "Traceback\ntorch.distributed.DistNetworkError: timed out\nnote"

    (line,) = lines_of(ended(124), ended(1, stderr=error))

    assert (line.outcome, line.value) == (
        Outcome.FAILED, "torch.distributed.DistNetworkError: timed out",
    )  # fmt: skip
    assert line.remedy == CAUSES["no-collective"][1]
    assert lines_of(ended(124))[0].value == "no result within 510 s"
    assert lines_of(ended(3))[0].value == "exit status 3"


def test_image_without_pytorch_is_not_a_network_fault() -> None:
    (line,) = lines_of(ended(1, stderr="python3: No module named 'torch'"))

    assert line.outcome is Outcome.NOT_MEASURED
    assert "--image" in line.meaning


def test_no_ranks_start_if_pods_cannot_reach_each_other() -> None:
    facts = "memlock unlimited\nlink net0 0 9000 a -1\nlink net1 0 9000 b -1\nend\n"
    runner = Recorded({pod.pod: ended(stdout=facts) for pod in PODS})

    lines = measure(
        PODS, runner, MeasurementPlan(Thresholds({}), ranks=1), progress=lambda text: None
    )

    (line,) = [line for line in lines if line.check == "collectives"]
    assert line.outcome is Outcome.NOT_MEASURED
    assert not any("torch.distributed.run" in argv for argv in runner.commands.values())


def test_output_without_a_result_is_none() -> None:
    assert parse_collectives("4 ranks, gloo, 5 rounds") is None
    assert parse_collectives(RESULT % "gloo") == ("gloo", {"all-gather": 90.1, "all-reduce": 70.5})


def test_program_is_that_of_the_example() -> None:
    assert program_text() == (EXAMPLES / "scale-out/collectives.py").read_text()


def test_pod_template_of_the_user_is_kept() -> None:
    base, others = base_documents(POD)
    requirements = PodRequirements("", "nic.dra.net", 0, "gpu.nvidia.com", 0, "program", base)

    pod = pod_document("verify-0", "node-a", requirements)

    (container,) = pod["spec"]["containers"]
    assert container["image"] == "registry.example/nccl:1"
    assert container["env"] == [{"name": "NCCL_DEBUG", "value": "INFO"}]
    assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK", "NET_RAW"]
    assert container["resources"] == {"limits": {"cpu": "1"}, "claims": [{"name": "nics"}]}
    assert [mount["name"] for mount in container["volumeMounts"]] == ["gib", "collectives", "shm"]
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["gib", "collectives", "shm"]
    assert pod["spec"]["hostIPC"] is True
    assert pod["metadata"]["labels"]["team"] == "x"
    assert others == []


def test_objects_of_the_users_pod_are_created_with_it() -> None:
    saved = """
---
apiVersion: v1
kind: Secret
metadata: {name: registry, namespace: ml, uid: a, resourceVersion: "7", labels: {team: x}}
type: kubernetes.io/dockerconfigjson
---
"""

    _, (secret,) = base_documents(POD + saved)

    assert secret["metadata"] == {"name": "registry", "labels": {"team": "x"}}
    assert secret["type"] == "kubernetes.io/dockerconfigjson"


NODE = """
---
kind: Node
metadata: {name: node-a}
"""


@pytest.mark.parametrize(
    "text",
    ["", "[", "kind: Job", POD.replace("kind: Pod", "kind: Job"), f"{POD}---{POD}", POD + NODE],
)
def test_file_without_a_usable_pod_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"one container has `image`"):
        base_documents(text)


def test_refused_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.yaml").write_text("kind: Job")

    for name, reason in (("job.yaml", "give one document"), ("none.yaml", "cannot be read")):
        path = tmp_path / name
        assert main(["verify", f"--pod={path}"]) == 1
        assert f"--pod {path}: {reason}" in capsys.readouterr().err
