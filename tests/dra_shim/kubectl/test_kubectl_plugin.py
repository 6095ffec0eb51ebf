"""`kubectl dranet` on saved files from the command line, and its SVG images."""

import io
import json
import sys
import tarfile
import textwrap
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dra_shim.kubectl.cli import PROGRAM, main
from tests.dra_shim.kubectl.accelerator_nodes import claim, driver_pod, nodes
from tests.fakes.called import Ended, called

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests/golden/topology"
GPU = ("gpu.nvidia.com", "dgx-h100", "gpu-0")
NIC = ("dra.net", "dgx-h100", "pci-0000-18-00-0")
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: ml}
spec:
  template:
    spec:
      resourceClaims: [{name: nic, resourceClaimTemplateName: pair}]
      containers: [{name: main, resources: {claims: [{name: nic}]}}]
"""
CLAIMS = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: nic}
spec: {selectors: [{cel: {expression: device.driver == "dra.net"}}]}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {selectors: [{cel: {expression: device.driver.startsWith("gpu.")}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: pair, namespace: ml}
spec:
  metadata: {annotations: {token: s3cret}}
  spec:
    devices:
      requests:
      - {name: gpu, exactly: {deviceClassName: gpu}}
      - {name: nic, exactly: {deviceClassName: nic}}
      constraints: [{matchAttribute: resource.kubernetes.io/pcieRoot}]
"""


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Return a directory with all nodes; a pod has a GPU and its NIC on the DGX."""
    directory = tmp_path / "saved"
    directory.mkdir()
    for name, text in nodes().items():
        (directory / f"{name}.json").write_text(text)
    allocated = claim("pair-x", "train-0", GPU, NIC)
    (directory / "claims.json").write_text(json.dumps(allocated))
    (directory / "pods.json").write_text(json.dumps(driver_pod("dgx-h100")))
    (directory / "classes.yaml").write_text(CLAIMS)
    return directory


def run(saved: Path, *arguments: str) -> Ended:
    """Run a subcommand on the saved files."""
    return called(main, *arguments, "--from", str(saved), cwd=saved.parent)


@pytest.mark.parametrize("command", ["status", "verify"])
def test_list_of_kubeconfigs_is_left_to_kubectl(
    monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("KUBECONFIG", "one:two")

    _, args = PROGRAM.parse([command])

    assert args.kubeconfig == ""


def change(path: Path, old: str, new: str) -> None:
    """Replace a text in a file that contains it."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_status_shows_nodes_version_and_holder(saved: Path) -> None:
    ended = run(saved, "status")

    lines = [line.split() for line in ended.stdout.splitlines()]
    row = "dgx-h100 0.1.0 yes 12 11 1 0 7 of 8 free"
    assert row.split() in lines
    allocated = "dgx-h100 pci-0000-18-00-0 ibp24s0 mlx5_0 allocated ml/train-0"
    assert allocated.split() in lines
    assert ended.returncode == 0


def test_status_exits_with_1_if_a_driver_is_not_ready(saved: Path) -> None:
    (saved / "pods.json").write_text(json.dumps(driver_pod("gb200", ready=False)))

    assert run(saved, "status").returncode == 1


def test_status_shows_the_taint_of_an_unhealthy_device(saved: Path) -> None:
    taint = '"taints": [{"key": "dra.net/unhealthy", "value": "port", "effect": "NoSchedule"}], '
    change(saved / "gb200.json", '"name": "pci-0000-03', taint + '"name": "pci-0000-03')

    ended = run(saved, "status")

    assert "unhealthy  dra.net/unhealthy=port:NoSchedule" in ended.stdout
    assert ended.returncode == 1


@pytest.mark.parametrize(
    ("node", "line", "near"),
    [
        ("dgx-h100", "7 of 8 GPU+NIC pairs are left on node dgx-h100", "same PCIe root"),
        ("mi300x", "8 of 8 GPU+NIC pairs are left on node mi300x", "same PCIe root"),
        ("gke-a4-0", "8 of 8 GPU+NIC pairs are left on node gke-a4-0", "same PCIe root"),
        ("gb200", "4 of 4 GPU+NIC pairs are left on node gb200", "same node"),
        ("aks-gpu-0", "8 of 8 GPU+NIC pairs are left on node aks-gpu-0", "same NUMA node"),
    ],
)
def test_free_counts_pairs(saved: Path, node: str, line: str, near: str) -> None:
    assert run(saved, "free", node).stdout == f"{line}\n"
    document = json.loads(run(saved, "free", node, "--output", "json").stdout)
    assert document["nodes"][0]["near"] == near


def test_nic_with_the_pci_address_as_dranet_publishes_it_is_a_nic(saved: Path) -> None:
    path = saved / "dgx-h100.json"
    gpus, driver, nics = path.read_text().partition('"driver": "dra.net"')
    names = "resource.kubernetes.io/pciBusID", "dra.net/pciAddress"
    path.write_text(gpus + driver + nics.replace(*names))

    assert run(saved, "free", "dgx-h100").stdout.startswith("7 of 8 GPU+NIC pairs")


@pytest.mark.parametrize(
    ("node", "old", "new"),
    [
        ("mi300x", '"amdgpu"', '"amdgpu-partition"'),
        ("dgx-h100", '"gpu"', '"mig"'),
    ],
)
def test_partition_of_a_gpu_is_no_gpu(saved: Path, node: str, old: str, new: str) -> None:
    change(saved / f"{node}.json", old, new)

    assert " of 7 GPU+NIC pairs" in run(saved, "free", node).stdout


@pytest.mark.parametrize("command", ["status", "free"])
def test_list_whose_end_is_missing_is_refused(saved: Path, command: str) -> None:
    (saved / "more.yaml").write_text("apiVersion: v1\nitems:\n- kind: Pod\n  metadata:\n    na")

    ended = run(saved, command)

    assert (ended.returncode, ended.stderr) == (
        1,
        f"kubectl dranet: {saved}/more.yaml: document: has items but no kind, as if cut off; save "
        "it again\n",
    )


def test_nodes_without_devices_are_reported(tmp_path: Path) -> None:
    (tmp_path / "pods.json").write_text(json.dumps(driver_pod("gb200")))

    ended = run(tmp_path, "free")
    assert (ended.returncode, ended.stdout) == (
        0,
        "no node publishes devices; check that the driver runs on it\n",
    )
    for command in ("free", "topology"):
        ended = run(tmp_path, command, "gb200")
        assert (ended.returncode, ended.stderr) == (
            1,
            "kubectl dranet: NODE gb200: publishes no devices; nodes that do: none\n",
        )


def test_walkthrough_shows_what_free_prints(tmp_path: Path) -> None:
    for name in ("node-a", "node-b"):
        text = nodes()["dgx-h100"].replace("dgx-h100", name)
        (tmp_path / f"{name}.json").write_text(text)
        allocated = claim(
            name, "train", *((driver, name, device) for driver, _, device in (GPU, NIC))
        )
        (tmp_path / f"claim-{name}.json").write_text(json.dumps(allocated))

    printed = run(tmp_path, "free").stdout

    readme = (ROOT / "manifests/examples/scale-out/README.md").read_text()
    assert textwrap.indent(printed, "    ") in readme


def test_free_pairs_a_gpu_only_with_a_nic_of_the_same_root(saved: Path) -> None:
    allocated = [claim("a", "p", GPU), claim("b", "q", (*NIC[:2], "pci-0000-40-00-0"))]
    (saved / "claims.json").write_text(json.dumps({"kind": "List", "items": allocated}))

    assert run(saved, "free", "dgx-h100").stdout.startswith("6 of 8 GPU+NIC pairs")


def test_topology_shows_the_matrix_and_the_holder(saved: Path) -> None:
    ended = run(saved, "topology", "dgx-h100")

    rows = {line.split()[0]: line.split() for line in ended.stdout.splitlines()[1:] if line}
    matrix = ended.stdout.splitlines()[1].split()
    assert matrix[:3] == ["GPU0", "X", "NODE"]
    # Storage NICs are at roots of their own, and sorted among the others.
    assert matrix[9:].count("ROOT") == 1
    assert rows["NIC0"][-2:] == ["allocated", "ml/train-0"]
    relations = json.loads(run(saved, "topology", "dgx-h100", "-o", "json").stdout)["relations"]
    assert {relations["GPU0"][f"NIC{index}"] for index in range(12)} == {"ROOT", "NODE", "SYS"}


class Terminal(io.StringIO):
    """Standard output that is a terminal."""

    def isatty(self) -> bool:
        """Return True."""
        return True


def test_matrix_of_a_topology_fits_the_terminal(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "70")
    monkeypatch.setenv("NO_COLOR", "1")

    main(["topology", "dgx-h100", "--from", str(saved)])

    parts = [part.splitlines() for part in terminal.getvalue().split("\n\n") if "NUMA\n" in part]
    assert max(len(line) for part in parts for line in part) <= 70
    columns = [label for part in parts for label in part[0].split()[:-1]]
    assert columns == [f"GPU{index}" for index in range(8)] + [f"NIC{index}" for index in range(12)]
    assert {len(part) for part in parts} == {1 + len(columns)}


def test_topology_of_an_unknown_node_suggests_a_similar_name(saved: Path) -> None:
    ended = run(saved, "topology", "gb20")

    assert ended.returncode == 1
    assert "gb200" in ended.stderr


@pytest.mark.parametrize("node", sorted(nodes()))
def test_svg_equals_the_golden_file(saved: Path, node: str) -> None:
    run(saved, "topology", node, "--svg", "picture.svg")

    picture = (saved.parent / "picture.svg").read_text()
    ElementTree.fromstring(picture)
    assert picture == (GOLDEN / f"{node}.svg").read_text()


def test_picture_has_the_ends_of_long_names(saved: Path) -> None:
    node = "node-with-a-name.of-a-domain.compute.internal-and-many-more-letters"
    text = (saved / "gke-a4-0.json").read_text().replace("gke-a4-0", node)
    (saved / "long.json").write_text(text)
    for pod in ("worker-0", "worker-1"):
        gpu = ("gpu.nvidia.com", node, f"gpu-{pod[-1]}")
        name = f"a-training-run-with-a-long-name-{pod}"
        (saved / f"{pod}.json").write_text(json.dumps(claim(pod, name, gpu)))

    run(saved, "topology", node, "--svg", "picture.svg")

    root = ElementTree.parse(saved.parent / "picture.svg").getroot()
    texts = [found.text or "" for found in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {text[-9:] for text in texts if text.startswith("ml/a-")} == {"-worker-0", "-worker-1"}
    assert f"Node {node}" in texts
    assert int(root.get("width", "")) > 9 * len(f"Node {node}")  # of 16 pixels each


def test_explain_finds_the_node_for_a_file(saved: Path) -> None:
    (saved.parent / "job.yaml").write_text(JOB)

    ended = run(saved, "explain", "job.yaml")

    first, second, *_ = ended.stdout.splitlines()
    # GB200 and ND H100 v5 have no root with both.
    assert first == "nodes: 3 of 5 can meet the claims; shown: dgx-h100"
    assert second.startswith("decision: Job ml/train: the claims can be met")
    assert ended.returncode == 0


def test_explain_takes_the_namespace_of_a_file_without_one_from_the_flag(saved: Path) -> None:
    (saved.parent / "job.yaml").write_text(JOB.replace(", namespace: ml", ""))

    ended = run(saved, "explain", "job.yaml", "-n", "ml", "--node", "dgx-h100")

    assert ended.stdout.startswith("decision: Job ml/train: the claims can be met")
    assert run(saved, "explain", "job.yaml").returncode == 1


def test_explain_accepts_the_name_of_a_job(saved: Path) -> None:
    (saved / "job.yaml").write_text(JOB)

    ended = run(saved, "explain", "job/train", "-n", "ml", "--node", "gb200")

    assert ended.stdout.startswith("decision: Job ml/train: the claims cannot be met")
    assert ended.returncode == 1


def test_explain_of_a_pod_without_claims_is_refused_with_the_remedy(saved: Path) -> None:
    (saved / "pod.json").write_text(json.dumps(driver_pod("gb200")))

    ended = run(saved, "explain", "dranet-gb200", "-n", "kube-system")

    assert (ended.returncode, ended.stderr) == (
        1,
        "kubectl dranet: dranet-gb200: Pod kube-system/dranet-gb200 has no resourceClaims; name "
        "another, or add some\n",
    )


def test_explain_reports_an_object_that_cannot_be_read_only_if_the_pod_refers_to_it(
    saved: Path,
) -> None:
    config = "config: [{opaque: {driver: dra.net, parameters: {interface: {mtuu: 9000}}}}]"
    template = CLAIMS.rpartition("---")[2].replace("name: pair", "name: typo")
    (saved / "typo.yaml").write_text(f"{template}      {config}\n")
    for name, named in (("train", "pair"), ("other", "typo")):
        job = JOB.replace("name: train", f"name: {name}").replace("pair", named)
        (saved / f"{name}.yaml").write_text(job)

    assert run(saved, "explain", "job/train", "-n", "ml").returncode == 0
    ended = run(saved, "explain", "job/other", "-n", "ml")
    assert ended.returncode == 1
    assert ended.stderr.startswith(
        "kubectl dranet: claim ml/typo: ResourceClaimTemplate typo: spec.spec.devices.config[0]"
        '.opaque.parameters.interface.mtuu: 9000: unknown field (did you mean "mtu"?); remove it'
    )


def test_explain_of_a_missing_job_is_refused_with_the_remedy(saved: Path) -> None:
    ended = run(saved, "explain", "job/other", "-n", "ml")

    assert ended.returncode == 1
    assert "no Job ml/other; correct the name, or give its --namespace" in ended.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (
            "topology dgx-h100 --svg /dev/full",
            "/dev/full: No space left on device; make room there",
        ),
        ("topology dgx-h100 --svg .", ".: Is a directory; check the path"),
        ("bundle --file none/b.tar.gz", "none/b.tar.gz: No such file or directory; check the path"),
    ],
)
def test_file_that_cannot_be_written_is_reported_with_the_remedy(
    saved: Path, words: str, reason: str
) -> None:
    ended = run(saved, *words.split())

    assert (ended.returncode, ended.stderr) == (1, f"kubectl dranet: {reason}\n")


def test_bundle_has_no_secrets_and_can_be_read_as_saved_files(saved: Path) -> None:
    ended = run(saved, "bundle", "--file", "b.tar.gz")

    assert ended.returncode == 0
    with tarfile.open(saved.parent / "b.tar.gz") as archive:
        archive.extractall(saved.parent / "unpacked", filter="data")
    texts = [path.read_text() for path in (saved.parent / "unpacked").rglob("*.json")]
    assert texts
    assert not any("s3cret" in text for text in texts)
    again = run(saved.parent / "unpacked", "status")
    assert again.stdout == run(saved, "status").stdout


KUBECTL = """#!/bin/sh
case "$*" in
*"get pods"*) cat pods.json ;;
*" logs "*dranet-far*) echo 'Error from server: dial tcp 10.0.0.2:10250: i/o timeout' >&2; exit 1 ;;
*" logs "*)
    touch "read-$$"
    for try in $(seq 400); do
        [ "$(ls read-* | wc -l)" -lt 2 ] || break
        [ "$try" -lt 400 ] || exit 1
        sleep 0.05
    done
    printf 'a log, Bearer s3cret \\377\\n' ;;
*) echo '{"items": []}' ;;
esac
"""


def test_bundle_has_logs_of_other_nodes_if_one_is_unreachable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each readable log waits for another one, so they are read together."""
    (tmp_path / "kubectl").write_text(KUBECTL)
    (tmp_path / "kubectl").chmod(0o755)
    (tmp_path / "pods.json").write_text(
        json.dumps({"items": [driver_pod("near"), driver_pod("far")]})
    )
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.chdir(tmp_path)

    assert main(["bundle", "--file", "b.tar.gz"]) == 0

    with tarfile.open("b.tar.gz") as archive:
        archive.extractall("unpacked", filter="data")
    logs = {path.name: path.read_text() for path in Path("unpacked").rglob("*.log")}
    near = "a log, Bearer REMOVED \N{REPLACEMENT CHARACTER}\n"
    assert logs["dranet-near-dranet.log"] == logs["dranet-near-nri.log"] == near
    assert "i/o timeout" in logs["dranet-far-dranet.log"]


LOG_LINE = "E1128 06:13:21.438538 17 memcache.go:265] Unhandled Error"
REFUSED = "The connection to the server was refused"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("echo 'Warning: token renewed'", "printed no JSON list; check the kubectl on the PATH"),
        ("echo '{}'", "printed no JSON list; check the kubectl on the PATH"),
        (f"echo '{LOG_LINE}' >&2; echo '{REFUSED}' >&2; exit 1", REFUSED),
        (f"echo '{LOG_LINE}' >&2; exit 1", LOG_LINE),
        ("exit 3", "exit status 3"),
    ],
    ids=["text", "no-list", "log-and-error", "log", "nothing"],
)
def test_failure_of_kubectl_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, error: str
) -> None:
    (tmp_path / "kubectl").write_text(f"#!/bin/sh\n{body}\n")
    (tmp_path / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    ended = called(main, "status", cwd=tmp_path)

    assert (ended.returncode, ended.stderr) == (1, f"kubectl dranet: kubectl get: {error}\n")


def test_bundle_does_not_overwrite_a_file(saved: Path) -> None:
    (saved.parent / "b.tar.gz").write_text("mine")

    ended = run(saved, "bundle", "--file", "b.tar.gz")

    assert ended.returncode == 1
    assert (saved.parent / "b.tar.gz").read_text() == "mine"


@pytest.mark.parametrize("command", [name for name, _ in PROGRAM.commands])
def test_each_command_has_examples(tmp_path: Path, command: str) -> None:
    ended = called(main, command, "--help", cwd=tmp_path)

    assert f"kubectl dranet {command}" in ended.stdout.partition("examples:")[2]


def test_tokens_and_passwords_are_removed_from_logs() -> None:
    from dra_shim.kubectl.redaction import redacted_text

    text = "Authorization: Bearer abc.def eyJh.eyJz.c2ln https://me:pw@host/"
    assert redacted_text(text) == "Authorization: Bearer REMOVED REMOVED https://REMOVED@host/"
