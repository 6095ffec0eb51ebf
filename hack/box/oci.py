"""Write an OCI image with nothing but Python: a layer of a directory, an image of layers.

oci.py layer ROOT TARGET            TARGET/layer.tar.gz, TARGET/diff-id
oci.py image VERSION TARGET LAYER…  an OCI layout in a tar, as `ctr images import` takes it

The same input gives the same bytes. Origin: the OCI image format specification 1.1.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
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


def image(version: str, target: Path, layers: list[Path]) -> None:
    """Write an image of these layers, the lowest first."""
    packed = [(each / "layer.tar.gz").read_bytes() for each in layers]
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    config = _json(
        {
            "architecture": machine,
            "os": "linux",
            "config": {"Env": list(ENVIRONMENT), "User": "0", "WorkingDir": "/"},
            "rootfs": {
                "type": "layers",
                "diff_ids": [(each / "diff-id").read_text() for each in layers],
            },
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{TYPE}manifest.v1+json",
            "config": _descriptor("config.v1+json", config),
            "layers": [_descriptor("layer.v1.tar+gzip", each) for each in packed],
        }
    )
    named = {
        "io.containerd.image.name": f"{NAME}:{version}",
        "org.opencontainers.image.ref.name": version,
    }
    entry = _descriptor("manifest.v1+json", manifest) | {"annotations": named}
    index = {"schemaVersion": 2, "mediaType": f"{TYPE}index.v1+json", "manifests": [entry]}
    with tarfile.open(target, "w") as tar:
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", _json(index))
        for blob in (manifest, config, *packed):
            _add(tar, f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)


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
        case ["image", version, target, *layers]:
            image(version, Path(target), [Path(each) for each in layers])
        case _:
            sys.exit(__doc__)
