"""Paths and names of the two kubelet sockets.

The kubelet finds one in its registry, and connects to the other by the path in the GetInfo
response. Both paths must be the same for the kubelet and for the shim.
"""

import base64
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dranet_nri.errors import DranetError, InvalidValueError

MAX_PATH: Final = 107  # bytes of a socket path: sun_path of sys/un.h without the final zero
DATA_MODE: Final = 0o750
_INSTANCE_HASH: Final = 8  # bytes of the hash in a short name
_WHOLE_HASH: Final = 16


class SocketError(DranetError):
    """A socket cannot be served; the text has the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Sockets:
    """Paths of the sockets, and of the lock that excludes a second instance."""

    registration: Path
    service: Path
    lock: Path


def sockets_of(root: Path, driver: str, instance: str = "") -> Sockets:
    """Return the paths, with shorter names if a path would be too long for a socket.

    Args:
        root: the kubelet's directory (--root-dir).
        driver: name of the driver.
        instance: UID of the pod if pods overlap during an update, otherwise "".

    Raises:
        InvalidValueError: the path is too long even with the shortest name.
    """
    data = root / "plugins" / driver
    return Sockets(
        _fitting(root / "plugins_registry", _registration_names(driver, instance)),
        _fitting(data, _service_names(instance)),
        data / "lock",
    )


def make_data_directory(path: Path) -> None:
    """Create the driver's directory in the kubelet's directory if it is missing.

    Raises:
        SocketError: it cannot be created, usually because the kubelet uses another directory.
    """
    try:
        path.mkdir(mode=DATA_MODE, exist_ok=True)
    except OSError as error:
        raise SocketError(
            f"directory {path}: cannot be made: {error.strerror}; is the kubelet's directory right "
            "(--kubelet-root-dir), and mounted into the container at the same path?"
        ) from error


def _registration_names(driver: str, instance: str) -> Iterator[str]:
    if not instance:
        yield f"{driver}-reg.sock"
    else:
        yield f"{driver}-{instance}-reg.sock"
        yield f"{driver}-{_hash(instance, _INSTANCE_HASH)}-reg.sock"
    yield f"dra-{_hash(chr(0).join((driver, instance)), _WHOLE_HASH)}-reg.sock"


def _service_names(instance: str) -> Iterator[str]:
    if not instance:
        yield "dra.sock"
    else:
        yield f"dra-{instance}.sock"
        yield f"dra-{_hash(instance, _INSTANCE_HASH)}.sock"


def _fitting(directory: Path, names: Iterator[str]) -> Path:
    paths = [directory / name for name in names]
    for path in paths:
        if len(os.fsencode(path)) <= MAX_PATH:
            return path
    shortest = min(paths, key=lambda path: len(os.fsencode(path)))
    raise InvalidValueError(
        f"--kubelet-root-dir: {shortest}: is {len(os.fsencode(shortest))} bytes long, and a "
        f"socket's path has at most {MAX_PATH}; move the kubelet's directory (--root-dir) to a "
        "shorter path, or give both a short symbolic link to it"
    )


def _hash(text: str, size: int) -> str:
    digest = hashlib.sha256(text.encode()).digest()[:size]
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
