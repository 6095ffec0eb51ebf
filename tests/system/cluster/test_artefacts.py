"""The files that hack/release makes, for one architecture, from what the cache has."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.system.cluster.installed import MANIFESTS

ROOT: Final = Path(__file__).parents[3]
VERSION: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
REPOSITORY: Final = "registry.example/net/dranet-nri"
IMAGES: Final = re.compile(r"image: \"?([^\s\"]+)")


@pytest.fixture(scope="module")
def release(programs: Path, helm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory with a release."""
    directory = tmp_path_factory.mktemp("release")
    command = ("hack/release", "--image", REPOSITORY, "--architecture", "amd64", directory)
    subprocess.run(command, cwd=ROOT, check=True, timeout=280)
    return directory


@pytest.fixture(scope="module")
def reference(release: Path) -> str:
    """Return the image by its digest, as the archive has it."""
    with tarfile.open(release / f"dranet-nri-{VERSION}-image.tar") as archive:
        index = archive.extractfile("index.json")
        assert index is not None
        (entry,) = json.load(index)["manifests"]
    return f"{REPOSITORY}@{entry['digest']}"


def test_checksums_cover_all_files(release: Path) -> None:
    lines = (release / "SHA256SUMS").read_text().splitlines()
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in release.iterdir()}
    del sums["SHA256SUMS"]

    assert {name: total for total, name in (line.split("  ") for line in lines)} == sums


def test_manifests_of_all_overlays_have_the_image_digest(release: Path, reference: str) -> None:
    overlays = {f"install-{path.name}.yaml" for path in MANIFESTS.glob("overlays/*")}
    found = {path.name: path.read_text() for path in release.glob("*.yaml")}

    assert {*found} == overlays | {"install.yaml"}
    for text in found.values():
        kinds = {document["kind"] for document in yaml.safe_load_all(text)}
        assert {"DaemonSet", "ClusterRole", "DeviceClass"} <= kinds
        assert IMAGES.findall(text) == [reference, reference]


def test_chart_renders_the_image_digest(release: Path, helm: Path, reference: str) -> None:
    chart = release / f"dranet-nri-{VERSION}.tgz"
    rendered = subprocess.run(
        (helm, "template", "x", chart), check=True, capture_output=True, text=True, timeout=60
    ).stdout

    assert IMAGES.findall(rendered) == [reference, reference]


def test_wheel_and_sdist_contain_both_packages(release: Path) -> None:
    with zipfile.ZipFile(release / f"dranet_nri-{VERSION}-py3-none-any.whl") as wheel:
        inside = {*wheel.namelist()}
    with tarfile.open(release / f"dranet_nri-{VERSION}.tar.gz") as source:
        sources = {*source.getnames()}

    assert {"dranet_nri/cli.py", "dra_shim/cli.py"} <= inside
    assert not any("DECISIONS" in name or name.startswith("tests") for name in inside)
    for file in ("dranet_nri/cli.py", "pyproject.toml", "LICENSE", "requirements/run.txt"):
        assert f"dranet_nri-{VERSION}/{file}" in sources


def test_sbom_lists_the_locked_packages(release: Path) -> None:
    locked = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements/run.txt").read_text(), re.M)
    document = json.loads((release / f"dranet-nri-{VERSION}-amd64.cdx.json").read_text())
    listed = {
        (re.sub(r"[-_.]+", "-", component["name"]).lower(), component["version"])
        for component in document["components"]
    }

    assert listed
    assert listed <= {(name, version) for name, version in locked}


def test_nonempty_output_directory_is_refused(release: Path) -> None:
    done = subprocess.run(
        ("hack/release", release), cwd=ROOT, check=False, capture_output=True, text=True
    )

    assert done.returncode == 1
    assert f"{release} is not empty" in done.stderr
