"""Container image made locally, because a test node reaches no registry.

One layer: busybox, its commands as links, and the directories a container needs. It serves as the
sandbox ("pause") image and as the image of every test container.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

NAME: Final = "localhost/box:1"
JOBS: Final = "localhost/jobs:1"
COMMANDS: Final = (
    "cat", "echo", "env", "false", "grep", "head", "id", "ip", "ls", "mount", "nc", "ping", "ps",
    "readlink", "sh", "sleep", "stat", "test", "touch", "true", "wc",
)  # fmt: skip
DIRECTORIES: Final = ("bin", "dev", "etc", "proc", "run", "sys", "tmp", "usr", "var")


MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"


@dataclass(frozen=True, slots=True)
class Image:
    """The image: its manifest, and by digest all that it is made of, the manifest too."""

    manifest: bytes
    blobs: Mapping[str, bytes]


def build(busybox: Path) -> Image:
    """Make the image.

    Args:
        busybox: A statically linked busybox.
    """
    return _image(_layer(busybox.read_bytes()), ["/bin/sleep", "1000000"], "/bin")


def _image(layer: bytes, entrypoint: Sequence[str], path: str) -> Image:
    config = _json(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": [*entrypoint], "Env": [f"PATH={path}"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
            "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
        }
    )
    return Image(manifest, {_digest(blob): blob for blob in (layer, config, manifest)})


def write_archive(busybox: Path, target: Path) -> None:
    """Write the image as an OCI layout in a tar file.

    Args:
        busybox: A statically linked busybox.
        target: Where the archive goes.
    """
    _write(NAME, build(busybox), target)


def write_jobs(root: Path, target: Path) -> None:
    """Write the image of distributed jobs: all but /usr, which a pod mounts from its node.

    Args:
        root: the root of image `jobs` (hack/box/image).
        target: where the archive goes.
    """
    _write(JOBS, _image(_jobs_layer(root), ["/bin/bash"], "/usr/sbin:/usr/bin"), target)


def _write(name: str, image: Image, target: Path) -> None:
    entry = _descriptor(MANIFEST, image.manifest)
    annotations = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name.rpartition(":")[2],
    }
    index = _json({"schemaVersion": 2, "manifests": [{**entry, "annotations": annotations}]})
    with tarfile.open(target, "w") as archive:
        _add_file(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add_file(archive, "index.json", index)
        for digest, blob in image.blobs.items():
            _add_file(archive, f"blobs/{digest.replace(':', '/')}", blob)


def _layer(busybox: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as layer:
        for name in DIRECTORIES:
            _add_directory(layer, name)
        _add_file(layer, "bin/busybox", busybox, mode=0o755)
        for name in COMMANDS:
            _add_link(layer, f"bin/{name}", "busybox")
        _add_file(layer, "etc/passwd", b"root:x:0:0::/:/bin/sh\n")
    return out.getvalue()


def _jobs_layer(root: Path) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as layer:
        for name in ("dev", "opt", "proc", "root", "run", "sys", "tmp", "usr", "var"):
            _add_directory(layer, name)
        for name in ("bin", "lib", "lib64", "sbin"):
            _add_link(layer, name, f"usr/{name}")
        layer.add(root / "etc", "etc")
    return out.getvalue()


def _add_directory(archive: tarfile.TarFile, name: str) -> None:
    directory = tarfile.TarInfo(name)
    directory.type = tarfile.DIRTYPE
    directory.mode = 0o1777 if name == "tmp" else 0o755
    archive.addfile(directory)


def _add_link(archive: tarfile.TarFile, name: str, target: str) -> None:
    link = tarfile.TarInfo(name)
    link.type = tarfile.SYMTYPE
    link.linkname = target
    archive.addfile(link)


def _add_file(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    entry.mode = mode
    archive.addfile(entry, io.BytesIO(content))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _descriptor(media_type: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}
