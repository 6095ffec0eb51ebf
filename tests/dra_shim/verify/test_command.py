"""The command `verify`: its nodes, and its report; kubectl and the measurement are replaced."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from dra_shim.cli import main
from dra_shim.verify.documents import Document
from dra_shim.verify.kubectl import KubectlError
from dra_shim.verify.node_checks import passed
from dra_shim.verify.types import Line


class Cluster:
    """A cluster with NICs on two nodes, whose namespaces are not deleted."""

    def __init__(self, *_: str) -> None:
        self.pods: list[Document] = []

    def get(self, *words: str) -> list[Document]:
        """Return the slices, the ready pods, or their claim."""
        spec = {"driver": "dra.net", "devices": [{"name": "nic"}]}
        slices = [
            {
                "apiVersion": "resource.k8s.io/v1",
                "spec": {**spec, "nodeName": node, "pool": {"name": node}},
            }
            for node in ("a", "b")
        ]
        claims = [{"metadata": {"name": "nics"}}]
        return {"resourceslices": slices, "pods": self.pods, "resourceclaims": claims}[words[0]]

    def create(self, documents: Sequence[Document]) -> None:
        """Run the pods at once."""
        claims = [{"name": "nics", "resourceClaimName": "nics"}]
        ready = [{"type": "Ready", "status": "True"}]
        self.pods += [
            {
                "metadata": document["metadata"], "spec": {"nodeName": "a"},
                "status": {"podIP": "", "conditions": ready, "resourceClaimStatuses": claims},
            }
            for document in documents
            if document["kind"] == "Pod"
        ]  # fmt: skip

    def delete_namespace(self, name: str, limit_s: float) -> None:
        """Fail."""
        raise KubectlError(f"namespace {name} still exists after {limit_s:.0f} s")

    def start_shell(self, pod: str) -> None:
        """Start nothing."""


@pytest.fixture(autouse=True)
def handled(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """Replace kubectl, and the measurement by one passed check; return the handled signals."""
    handled: set[int] = set()
    monkeypatch.setattr("dra_shim.commands.verify.Kubectl", Cluster)
    monkeypatch.setattr(
        "dra_shim.commands.verify.signal.signal", lambda number, _: handled.add(number)
    )

    def measured(*_: object) -> list[Line]:
        return [passed("tcp", "a/net1", "b/net1")]

    monkeypatch.setattr("dra_shim.commands.verify.measure", measured)
    return handled


def test_report_is_printed_although_the_clean_up_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    svg = tmp_path / "matrix.svg"

    assert main(["verify", f"--svg={svg}"]) == 1

    output = capsys.readouterr()
    assert "PASSED: 0 failed, 0 not measured, 1 passed." in output.out
    assert "still exists after 120 s" in output.err
    assert "a/net1" in svg.read_text()


def test_lost_terminal_ends_the_pods_too(
    monkeypatch: pytest.MonkeyPatch, handled: set[int]
) -> None:
    inherited = dict.fromkeys(signal.valid_signals(), signal.SIG_DFL)
    monkeypatch.setattr("dra_shim.commands.verify.signal.getsignal", inherited.get)
    main(["verify"])
    assert handled == {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}

    handled.clear()
    inherited[signal.SIGHUP] = signal.SIG_IGN  # as with `nohup`
    main(["verify"])
    assert handled == {signal.SIGINT, signal.SIGTERM}


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ("a,b,typo", "--nodes typo: no NICs are published there"),
        ("a", "a measurement needs two"),
        ("a,a", "--nodes a,a: two pods of a node need --nics"),
    ],
)
def test_unusable_nodes_are_refused_before_pods_are_created(
    capsys: pytest.CaptureFixture[str], nodes: str, reason: str
) -> None:
    assert main(["verify", f"--nodes={nodes}"]) == 1

    errors = capsys.readouterr().err
    assert reason in errors
    assert "pods are ready" not in errors


def test_svg_that_cannot_be_written_is_refused_before_the_measurement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", f"--svg={tmp_path}/none/matrix.svg"]) == 1

    output = capsys.readouterr()
    assert "none/matrix.svg" in output.err
    assert "pods are ready" not in output.err
