"""Findings of `doctor` on plugin and runtime, and its limits inside a container."""

import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from dranet_nri.cli import main
from dranet_nri.commands.doctor import CONTAINERD_NRI, CRIO_NRI, runtime_findings, verbs_of
from dranet_nri.component.findings import Finding, Severity
from dranet_nri.facts.diagnostics import HostDiagnostics, HostPaths, read_diagnostics
from dranet_nri.facts.runtime_config import ContainerdFile, CrioFiles
from dranet_nri.facts.verbs import VerbsDevice, VerbsFailure
from dranet_nri.inventory import RdmaDeviceFacts
from dranet_nri.state.heartbeat import HungCall, PluginHealth
from tests.dranet_nri.telemetry.heartbeat_bench import ago, beat
from tests.fakes.sysfs import FakeSysfs

pytestmark = pytest.mark.process


SOCKET = Path("/var/run/nri/nri.sock")
NOT_SERVED = PluginHealth(not_ready=("not served by the runtime: no such file",))
HCA = RdmaDeviceFacts("mlx5_0")


def nri(diagnostics: HostDiagnostics) -> Finding:
    """Return the finding on NRI while the plugin has no connection."""
    (found,) = (
        finding
        for finding in runtime_findings(diagnostics, SOCKET, NOT_SERVED)
        if finding.subject == "NRI"
    )
    return found


# --------------------------------------------------------------------------- plugin, NRI


def test_connected_plugin_proves_that_nri_is_enabled() -> None:
    off = HostDiagnostics(containerd=ContainerdFile(2, nri=False), nri=False)

    assert list(runtime_findings(off, SOCKET, PluginHealth())) == [
        Finding("plugin", Severity.OK, "running, and connected to the runtime")
    ]


@pytest.mark.parametrize(
    "verdict",
    [
        PluginHealth(not_live=("no heartbeat",), not_ready=("no runtime",)),
        PluginHealth(("no heartbeat",)),
    ],
)
def test_plugin_without_a_heartbeat_is_bad_without_further_findings(verdict: PluginHealth) -> None:
    plugin, runtime = runtime_findings(HostDiagnostics(nri=True), SOCKET, verdict)

    assert plugin == Finding("plugin", Severity.BAD, "no heartbeat; see its log")
    assert runtime == Finding("NRI", Severity.OK, f"on: the runtime's socket {SOCKET} is there")


def test_hung_thread_is_a_warning() -> None:
    hung, well = runtime_findings(
        HostDiagnostics(), SOCKET, PluginHealth(remarks=("hung in the kernel",))
    )

    assert hung == Finding("plugin", Severity.WARNING, "hung in the kernel")
    assert well.grade is Severity.OK


@pytest.mark.parametrize("left", [True, False], ids=["stale", "absent"])
@pytest.mark.parametrize(
    ("observed", "remedy"),
    [
        (HostDiagnostics(containerd=ContainerdFile(2, nri=False)), CONTAINERD_NRI),
        (HostDiagnostics(crio=CrioFiles(nri=False)), CRIO_NRI),
    ],
    ids=["containerd", "crio"],
)
def test_settings_that_disable_nri_are_reported_with_the_remedy(
    observed: HostDiagnostics, remedy: str, *, left: bool
) -> None:
    found = nri(HostDiagnostics(containerd=observed.containerd, crio=observed.crio, nri=left))

    assert found.grade is Severity.BAD
    assert "settings switch it off" in found.text
    assert found.text.endswith(remedy)


@pytest.mark.parametrize(
    ("containerd", "crio", "remedies"),
    [
        (None, None, {CONTAINERD_NRI, CRIO_NRI}),
        (ContainerdFile(2), None, {CONTAINERD_NRI}),
        (None, CrioFiles(), {CRIO_NRI}),
        (ContainerdFile(3, nri=True), CrioFiles(nri=True), {CONTAINERD_NRI, CRIO_NRI}),
        (ContainerdFile(error="line 1"), None, {CONTAINERD_NRI}),
    ],
    ids=["unknown", "containerd", "crio", "both", "unreadable"],
)
def test_missing_nri_socket_is_reported_with_a_remedy_per_runtime(
    containerd: ContainerdFile | None, crio: CrioFiles | None, remedies: set[str]
) -> None:
    found = nri(HostDiagnostics(containerd=containerd, crio=crio, nri=False))

    assert (found.grade, str(SOCKET) in found.text) == (Severity.BAD, True)
    assert {remedy for remedy in (CONTAINERD_NRI, CRIO_NRI) if remedy in found.text} == remedies
    assert "--nri-socket" in found.text


@pytest.mark.parametrize("path", ["/run/containerd/nri.sock", "/var/lib/nri.sock"])
def test_nri_socket_at_another_configured_path_is_reported(path: str) -> None:
    found = nri(HostDiagnostics(containerd=ContainerdFile(2, nri=True, nri_socket=path), nri=False))

    assert (found.grade, f"put it at {path}" in found.text) == (Severity.BAD, True)
    assert "--nri-socket" in found.text


@pytest.mark.parametrize("path", ["/run/nri/nri.sock", "/var/run/nri/nri.sock"])
def test_run_and_var_run_are_the_same_directory(path: str) -> None:
    found = nri(HostDiagnostics(containerd=ContainerdFile(2, nri=True, nri_socket=path), nri=False))

    assert CONTAINERD_NRI in found.text


def test_unreadable_state_is_a_note() -> None:
    observed = HostDiagnostics(crio=CrioFiles(error="line 1"))

    _, settings, found = runtime_findings(observed, SOCKET, NOT_SERVED)

    assert settings == Finding("CRI-O", Severity.NOTE, "its settings are unreadable: line 1")
    assert found == Finding(
        "NRI", Severity.NOTE, f"{SOCKET} cannot be read; run the command as root"
    )


def test_socket_is_distinguished_from_a_file_and_a_missing_path(tmp_path: Path) -> None:
    paths = {name: tmp_path / name for name in ("socket", "file", "none")}
    paths["below"] = paths["file"] / "x"
    paths["long"] = tmp_path / ("x" * 256)
    paths["file"].touch()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(paths["socket"]))
        observed = {
            name: read_diagnostics((), HostPaths(tmp_path, nri=path)).nri
            for name, path in paths.items()
        }

    assert observed == {"socket": True, "file": False, "none": False, "below": False, "long": None}


# --------------------------------------------------------------------------- RDMA devices


def recording_probe() -> tuple[list[str], Callable[[str], VerbsDevice | VerbsFailure]]:
    """Return a list of the opened devices, and a failing probe that appends to it."""
    opened: list[str] = []

    def probe(name: str) -> VerbsFailure:
        opened.append(name)
        return VerbsFailure(name, "Failed to get devices list")

    return opened, probe


def test_device_is_not_opened_inside_a_container_with_its_own_dev() -> None:
    opened, probe = recording_probe()

    probed, (found,) = verbs_of((HCA,), HostDiagnostics(own_dev=True), probe)

    assert (opened, probed) == ([], [])
    assert found.grade is Severity.NOTE
    assert "this container has its own /dev" in found.text


def test_device_is_opened_on_the_host() -> None:
    opened, probe = recording_probe()

    probed, (found,) = verbs_of((HCA,), HostDiagnostics(), probe)

    assert opened == ["mlx5_0"]
    assert probed == [VerbsFailure("mlx5_0", "Failed to get devices list")]
    assert found.grade is Severity.BAD


def test_device_is_not_opened_without_pyverbs() -> None:
    probed, (found,) = verbs_of((HCA,), HostDiagnostics(), None)

    assert probed == []
    assert found.text.startswith("not tested: pyverbs is not installed")


# --------------------------------------------------------------------------- the command


@pytest.fixture
def places(tmp_path: Path) -> tuple[str, ...]:
    """Return flags of a node whose plugin is well, with nothing else on it."""
    (tmp_path / "run").mkdir()
    beat(tmp_path / "run")
    names = {
        "--sysfs": "sys", "--containerd-config": "config.toml", "--crio-config": "crio",
        "--nri-socket": "nri.sock", "--run-dir": "run",
    }  # fmt: skip
    return tuple(f"{flag}={tmp_path / name}" for flag, name in names.items())


def report(capsys: pytest.CaptureFixture[str], *flags: str) -> tuple[int, dict[str, str]]:
    """Run the command; return its status, and its findings by subject."""
    code = main(["doctor", "--output", "json", *flags])
    found = json.loads(capsys.readouterr().out)["findings"]
    return code, {finding["subject"]: f"{finding['grade']} {finding['text']}" for finding in found}


def test_command_reports_a_node_without_rdma(
    places: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    code, output = report(capsys, *places)

    assert code == 0
    assert output["plugin"].startswith("ok")
    assert "no RDMA device on the host" in output["RDMA mode"]


def test_command_reports_disabled_nri_and_a_disconnected_plugin(
    places: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(tmp_path / "run", serving=False, error="nri.sock: No such file")
    (tmp_path / "config.toml").write_text(
        "version = 2\n[plugins.'io.containerd.nri.v1.nri']\ndisable = true\n"
    )

    code, output = report(capsys, *places)

    assert code == 1
    assert output["plugin"].startswith("bad not served by the runtime: nri.sock: No such file")
    assert output["NRI"].startswith("bad containerd's settings switch it off; set disable = false")


def test_command_reads_the_crio_settings_and_finds_the_socket(
    places: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    beat(tmp_path / "run", beat_s=ago(40), hung=(HungCall(ago(60), "a/b", "move link eth1"),))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "nri.sock"))
        _, there = report(capsys, *places)
    (tmp_path / "crio").mkdir()
    (tmp_path / "crio/crio.conf").write_text("[crio.nri]\nenable_nri = false")
    code, off = report(capsys, *places)

    assert there["NRI"].startswith("ok on: the runtime's socket")
    assert (code, off["NRI"].startswith("bad CRI-O's settings switch it off")) == (1, True)


def test_command_detects_an_azure_machine_by_its_asset_tag(
    places: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = FakeSysfs(tmp_path / "sys")
    host.write("class/dmi/id/chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77")

    _, output = report(capsys, *places)

    assert output["Azure"].startswith("note NUMA node and GPUs")
