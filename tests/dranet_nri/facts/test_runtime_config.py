"""NRI and CDI settings of containerd and CRI-O."""

from pathlib import Path

import pytest

from dranet_nri.facts.runtime_config import ContainerdFile, CrioFiles, containerd_file, crio_files

pytestmark = pytest.mark.process


NRI = "[plugins.'io.containerd.nri.v1.nri']\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("version = 2\n[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = true",
         ContainerdFile(2, cdi=True)),
        ("version = 3\n[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false",
         ContainerdFile(3, cdi=False)),
        ("version = 3", ContainerdFile(3)),
        ("", ContainerdFile()),
        ("version = '3'\nplugins = 1", ContainerdFile()),
        ("[plugins]\n'io.containerd.grpc.v1.cri' = 'x'", ContainerdFile()),
        ("[plugins.'io.containerd.grpc.v1.cri']\nenable_cdi = 'yes'", ContainerdFile()),
        (f"version = 2\n{NRI}disable = true", ContainerdFile(2, nri=False)),
        (f"version = 3\n{NRI}disable = false", ContainerdFile(3, nri=True)),
        (f"{NRI}disable = 'true'\nsocket_path = 1", ContainerdFile()),
        (f"{NRI}socket_path = '/a.sock'", ContainerdFile(nri_socket="/a.sock")),
        (f"disabled_plugins = ['io.containerd.nri.v1.nri']\n{NRI}disable = false",
         ContainerdFile(nri=False)),
        ("[plugins.'io.containerd.grpc.v1.cri']\ncdi_spec_dirs = ['/etc/cdi', 1]",
         ContainerdFile(cdi_dirs=("/etc/cdi",))),
        ("version = 3\n[plugins.'io.containerd.cri.v1.runtime']\ncdi_spec_dirs = []",
         ContainerdFile(3, cdi_dirs=())),
        ("[plugins.'io.containerd.grpc.v1.cri']\ncdi_spec_dirs = '/etc/cdi'", ContainerdFile()),
        ("disabled_plugins = ['io.containerd.grpc.v1.cri']", ContainerdFile()),
        ("disabled_plugins = 'io.containerd.nri.v1.nri'", ContainerdFile()),
    ],
)  # fmt: skip
def test_containerd_settings_are_read(tmp_path: Path, text: str, expected: ContainerdFile) -> None:
    (tmp_path / "config.toml").write_text(text)

    assert containerd_file(tmp_path / "config.toml") == expected


def test_missing_settings_are_distinguished_from_invalid_toml(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("version = = 3")

    broken = containerd_file(tmp_path / "config.toml")

    assert containerd_file(tmp_path / "none.toml") is None
    assert broken is not None
    assert "line 1" in broken.error


def crio(directory: Path, **files: str) -> CrioFiles | None:
    """Write settings into a directory and its crio.conf.d, and return the parsed settings."""
    (directory / "crio.conf.d").mkdir()
    for name, text in files.items():
        path = directory if name == "main" else directory / "crio.conf.d"
        (path / ("crio.conf" if name == "main" else name)).write_text(text)
    return crio_files(directory)


CDI = "[crio.runtime]\ncdi_spec_dirs = ['/a']"
ON, OFF = ("[crio.nri]\nenable_nri = true", "[crio.nri]\nenable_nri = false")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, None),
        ({"main": ""}, CrioFiles()),
        ({"main": OFF}, CrioFiles(nri=False)),
        ({"a": OFF, "b": ON}, CrioFiles(nri=True)),
        ({"main": ON, "b": OFF, "c": "[crio.image]"}, CrioFiles(nri=False)),
        ({"main": f"{ON}\n{CDI}", "b": "[crio.runtime]"}, CrioFiles(nri=True, cdi_dirs=("/a",))),
        (
            {"main": CDI, "b": f"{CDI[:-1]}, '/b']", "c": ON},
            CrioFiles(nri=True, cdi_dirs=("/a", "/b")),
        ),
        ({"main": "crio = 1"}, CrioFiles()),
        ({"main": "[crio]\nnri = 'on'"}, CrioFiles()),
        ({"main": "[crio.nri]\nenable_nri = 1"}, CrioFiles()),
    ],
)
def test_last_crio_setting_takes_precedence(
    tmp_path: Path, files: dict[str, str], expected: CrioFiles | None
) -> None:
    assert crio(tmp_path, **files) == expected


def test_invalid_crio_settings_are_reported(tmp_path: Path) -> None:
    broken = crio(tmp_path, main=ON, b="= 3")

    assert broken is not None
    assert broken.nri is None
    assert "line 1" in broken.error


def test_node_without_crio_has_no_crio_settings(tmp_path: Path) -> None:
    (tmp_path / "crio.conf.d").mkdir()
    (tmp_path / "crio.conf.d/directory").mkdir()

    assert crio_files(tmp_path / "none") is None
    assert crio_files(tmp_path) is None
