"""Write an OCI image with nothing but Python: a layer of a directory, an image of layers.

oci.py layer ROOT TARGET
    TARGET/layer.tar.gz, TARGET/diff-id
oci.py image PYPROJECT TARGET UPPER [ARCHITECTURE LOWER]…
    an OCI layout in a tar, as `ctr images import` takes it: an index of one image for each
    architecture, which has the layers LOWER and UPPER
oci.py digest ARCHIVE
    print the digest of the index, by which a registry knows the image too
oci.py file ARCHIVE ARCHITECTURE PATH
    print a file of the image of one architecture

The same input gives the same bytes. Origin: the OCI image format specification 1.1.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

NAME = "localhost/dranet-nri"
TYPE = "application/vnd.oci.image."
ENVIRONMENT = (
    "PATH=/usr/local/bin:/usr/bin",
    "LANG=C.UTF-8",
    "PYTHONDONTWRITEBYTECODE=1",  # the root is read-only
    "PYTHONUNBUFFERED=1",
)


class Digest(io.RawIOBase):
    """A file that passes bytes on and keeps their SHA-256."""

    def __init__(self, file: gzip.GzipFile) -> None:
        """Write to file."""
        self._file = file
        self.sha = hashlib.sha256()

    def write(self, data: bytes) -> int:  # type: ignore[override]  # tarfile writes nothing else
        """Write all."""
        self.sha.update(data)
        return self._file.write(data)


def layer(root: Path, target: Path) -> None:
    """Write what is below root as a layer."""
    with (
        (target / "layer.tar.gz").open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, mtime=0) as packed,
    ):
        plain = Digest(packed)
        with tarfile.open(fileobj=plain, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(root.rglob("*")):
                tar.add(path, str(path.relative_to(root)), recursive=False, filter=_anonymous)
    (target / "diff-id").write_text(f"sha256:{plain.sha.hexdigest()}")


def image(pyproject: Path, target: Path, upper: Path, lowers: dict[str, Path]) -> None:
    """Write an image of two layers for each architecture, and the index of them.

    Args:
        pyproject: The project's file; its version is the image's.
        target: The archive to write.
        upper: The layer that all architectures share.
        lowers: The lower layer of each architecture, by Go's name of it.
    """
    project = tomllib.loads(pyproject.read_text())["project"]
    version: str = project["version"]
    labels = {
        "org.opencontainers.image.title": project["name"],
        "org.opencontainers.image.description": project["description"],
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.licenses": project["license"],
    }
    blobs: list[bytes] = []

    def added(kind: str, blob: bytes) -> dict[str, Any]:
        blobs.append(blob)
        return _descriptor(kind, blob)

    top = added("layer.v1.tar+gzip", (upper / "layer.tar.gz").read_bytes())
    images = []
    for architecture, lower in lowers.items():
        config = {
            "architecture": architecture,
            "os": "linux",
            "config": {
                "Env": list(ENVIRONMENT), "User": "0", "WorkingDir": "/", "Labels": labels,
            },
            "rootfs": {
                "type": "layers",
                "diff_ids": [(layer / "diff-id").read_text() for layer in (lower, upper)],
            },
        }  # fmt: skip
        manifest = {
            "schemaVersion": 2,
            "mediaType": f"{TYPE}manifest.v1+json",
            "config": added("config.v1+json", _json(config)),
            "layers": [added("layer.v1.tar+gzip", (lower / "layer.tar.gz").read_bytes()), top],
        }
        platform = {"os": "linux", "architecture": architecture}
        images.append(added("manifest.v1+json", _json(manifest)) | {"platform": platform})
    named = {
        "io.containerd.image.name": f"{NAME}:{version}",
        "org.opencontainers.image.ref.name": version,
    }
    entry = added("index.v1+json", _json(_index(images))) | {"annotations": named}
    with tarfile.open(target, "w") as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", _json(_index([entry])))
        for blob in reversed(blobs):
            _add(tar, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)


def digest_of(archive: Path) -> str:
    """Return the digest of the only image in an archive."""
    with tarfile.open(archive) as tar:
        (entry,) = _read(tar, "index.json")["manifests"]
    return str(entry["digest"])


def file_of(archive: Path, architecture: str, path: str) -> bytes:
    """Return a file of an image.

    Raises:
        KeyError: The image has no such architecture or file.
    """
    with tarfile.open(archive) as tar:
        (entry,) = _read(tar, "index.json")["manifests"]
        images = _read(tar, _place(entry))["manifests"]
        manifests = {image["platform"]["architecture"]: image for image in images}
        for layer in reversed(_read(tar, _place(manifests[architecture]))["layers"]):
            with tarfile.open(fileobj=tar.extractfile(_place(layer))) as members:
                if path in members.getnames():
                    file = members.extractfile(path)
                    assert file is not None, f"{path} is no file"
                    return file.read()
    raise KeyError(path)


def _place(described: dict[str, Any]) -> str:
    return "blobs/" + str(described["digest"]).replace(":", "/")


def _read(tar: tarfile.TarFile, name: str) -> dict[str, Any]:
    file = tar.extractfile(name)
    assert file is not None, f"{name} is no file"
    document: dict[str, Any] = json.loads(file.read())
    return document


def _index(entries: list[dict[str, Any]]) -> dict[str, Any]:
    return {"schemaVersion": 2, "mediaType": f"{TYPE}index.v1+json", "manifests": entries}


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = 0
    return member


def _json(document: object) -> bytes:
    return json.dumps(document, sort_keys=True).encode()


def _descriptor(kind: str, blob: bytes) -> dict[str, Any]:
    digest = f"sha256:{hashlib.sha256(blob).hexdigest()}"
    return {"mediaType": f"{TYPE}{kind}", "digest": digest, "size": len(blob)}


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    tar.addfile(member, io.BytesIO(data))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["layer", root, target]:
            layer(Path(root), Path(target))
        case ["image", pyproject, target, upper, *parts]:
            lowers = dict(zip(parts[::2], map(Path, parts[1::2]), strict=True))
            image(Path(pyproject), Path(target), Path(upper), lowers)
        case ["digest", archive]:
            print(digest_of(Path(archive)))
        case ["file", archive, architecture, path]:
            sys.stdout.buffer.write(file_of(Path(archive), architecture, path))
        case _:
            sys.exit(__doc__)
