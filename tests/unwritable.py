"""Directories that take no record for the length of a block: small file systems of their own."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def full(directory: Path) -> Iterator[None]:
    """Leave no room for a record."""
    ballast = directory / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def readonly(directory: Path) -> Iterator[None]:
    """Let nothing be written."""
    subprocess.run(("mount", "-o", "remount,ro", str(directory)), check=True)
    try:
        yield
    finally:
        subprocess.run(("mount", "-o", "remount,rw", str(directory)), check=True)
