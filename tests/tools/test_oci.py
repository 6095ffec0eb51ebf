"""Images written by hack/box/oci.py, against the OCI image specification."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.process


SCRIPT = Path(__file__).parents[2] / "hack/box/oci.py"


def run(*arguments: str | Path) -> None:
    subprocess.run((sys.executable, SCRIPT, *arguments), check=True)


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """Return a layer of a directory with a program and a link to it."""
    root, target = tmp_path / "root", tmp_path / "layer"
    (root / "usr/bin").mkdir(parents=True)
    program = root / "usr/bin/program"
    program.write_text("#!/usr/bin/python3\n")
    program.chmod(0o755)
    (root / "bin").symlink_to("usr/bin")
    target.mkdir()
    run("layer", root, target)
    return target


@pytest.fixture
def image(layer: Path, tmp_path: Path) -> dict[str, bytes]:
    """Return the members of an image with that layer, of two architectures."""
    project = 'name = "nic"\ndescription = "NICs"\nversion = "1.2.3"\nlicense = "MIT"\n'
    (tmp_path / "pyproject.toml").write_text(f"[project]\n{project}")
    parts = ("amd64", layer, "arm64", layer)
    run("image", tmp_path / "pyproject.toml", tmp_path / "image.tar", layer, *parts)
    with tarfile.open(tmp_path / "image.tar") as tar:
        files = {member.name: tar.extractfile(member) for member in tar}
        return {name: file.read() for name, file in files.items() if file}


def blob(image: dict[str, bytes], described: Any) -> bytes:
    """Return what a descriptor describes; it is as long as that says, and has that digest."""
    data = image["blobs/" + described["digest"].replace(":", "/")]
    assert hashlib.sha256(data).hexdigest() == described["digest"].removeprefix("sha256:")
    assert len(data) == described["size"]
    return data


def test_image_has_valid_references(image: dict[str, bytes]) -> None:
    (entry,) = json.loads(image["index.json"])["manifests"]
    images = json.loads(blob(image, entry))["manifests"]

    assert entry["annotations"]["io.containerd.image.name"] == "localhost/dranet-nri:1.2.3"
    assert json.loads(image["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    assert [described["platform"]["architecture"] for described in images] == ["amd64", "arm64"]
    for described in images:
        manifest = json.loads(blob(image, described))
        config = json.loads(blob(image, manifest["config"]))
        layers = [gzip.decompress(blob(image, layer)) for layer in manifest["layers"]]
        digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
        assert config["rootfs"] == {"type": "layers", "diff_ids": digests}
        assert config["architecture"] == described["platform"]["architecture"]
        assert config["config"]["Labels"]["org.opencontainers.image.version"] == "1.2.3"


def test_digest_and_file_are_read_from_an_archive(image: dict[str, bytes], tmp_path: Path) -> None:
    def read(*arguments: str | Path) -> bytes:
        return subprocess.run((sys.executable, SCRIPT, *arguments), check=True, stdout=-1).stdout

    (entry,) = json.loads(image["index.json"])["manifests"]

    assert read("digest", tmp_path / "image.tar").decode().strip() == entry["digest"]
    program = read("file", tmp_path / "image.tar", "arm64", "usr/bin/program")
    assert program == b"#!/usr/bin/python3\n"


def test_layer_has_files_modes_and_links_without_user_names(layer: Path) -> None:
    packed = gzip.decompress((layer / "layer.tar.gz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        members = {member.name: member for member in tar}

    assert [*members] == ["bin", "usr", "usr/bin", "usr/bin/program"]
    assert members["bin"].linkname == "usr/bin"
    assert members["usr/bin/program"].mode & 0o777 == 0o755
    assert {
        (member.uid, member.gid, member.uname, member.mtime) for member in members.values()
    } == {(0, 0, "", 0)}


def test_layer_of_a_directory_is_reproducible(layer: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    (tmp_path / "root/usr/bin/program").touch()

    run("layer", tmp_path / "root", again)

    names = ("layer.tar.gz", "diff-id")
    assert [(again / name).read_bytes() for name in names] == [
        (layer / name).read_bytes() for name in names
    ]
