"""What hack/box/oci.py writes is an image by the specification: parts go by their digests."""

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

SCRIPT = Path(__file__).parents[2] / "hack/box/oci.py"


def run(*words: str | Path) -> None:
    subprocess.run((sys.executable, SCRIPT, *words), check=True)


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
    """Return the members of an image of that layer."""
    run("image", "1.2.3", tmp_path / "image.tar", layer)
    with tarfile.open(tmp_path / "image.tar") as tar:
        files = {each.name: tar.extractfile(each) for each in tar}
        return {name: file.read() for name, file in files.items() if file}


def blob(image: dict[str, bytes], described: Any) -> bytes:
    """Return what a descriptor describes; it is as long as that says, and has that digest."""
    data = image["blobs/" + described["digest"].replace(":", "/")]
    assert hashlib.sha256(data).hexdigest() == described["digest"].removeprefix("sha256:")
    assert len(data) == described["size"]
    return data


def test_an_image_is_found_by_its_name_and_hangs_together(image: dict[str, bytes]) -> None:
    (entry,) = json.loads(image["index.json"])["manifests"]
    manifest = json.loads(blob(image, entry))
    config = json.loads(blob(image, manifest["config"]))
    (packed,) = (blob(image, each) for each in manifest["layers"])

    assert entry["annotations"]["io.containerd.image.name"] == "localhost/dranet-nri:1.2.3"
    assert json.loads(image["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    digest = hashlib.sha256(gzip.decompress(packed)).hexdigest()
    assert config["rootfs"] == {"type": "layers", "diff_ids": [f"sha256:{digest}"]}


def test_a_layer_has_files_modes_and_links_and_nobodys_name(layer: Path) -> None:
    packed = gzip.decompress((layer / "layer.tar.gz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        members = {each.name: each for each in tar}

    assert [*members] == ["bin", "usr", "usr/bin", "usr/bin/program"]
    assert members["bin"].linkname == "usr/bin"
    assert members["usr/bin/program"].mode & 0o777 == 0o755
    assert {(each.uid, each.gid, each.uname, each.mtime) for each in members.values()} == {
        (0, 0, "", 0)
    }


def test_the_same_directory_is_the_same_layer(layer: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    again.mkdir()
    (tmp_path / "root/usr/bin/program").touch()

    run("layer", tmp_path / "root", again)

    names = ("layer.tar.gz", "diff-id")
    assert [(again / name).read_bytes() for name in names] == [
        (layer / name).read_bytes() for name in names
    ]
