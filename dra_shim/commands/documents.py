"""Manifest files of the verbs, read from paths or standard input."""

import sys
from collections.abc import Sequence
from pathlib import Path

from dra_shim.resourceapi import Document, parse_manifests
from dranet_nri.errors import ConfigError

STDIN = "-"


def read_text(name: str) -> str:
    """Return the text of a file, or of standard input for "-".

    Raises:
        ConfigError: it cannot be read, or is not UTF-8.
    """
    try:
        return sys.stdin.read() if name == STDIN else Path(name).read_text("utf-8")
    except OSError as error:
        raise ConfigError([f"cannot be read: {error.strerror}; check the path"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"is not UTF-8 at byte {error.start}; save it as UTF-8"]) from None


def read_documents(names: Sequence[str]) -> tuple[Document, ...]:
    """Return the documents of all files, each file once.

    Raises:
        ConfigError: every violation, with the file's name in front.
    """
    return tuple(each for documents in read_files(names).values() for each in documents)


def read_files(
    names: Sequence[str], holders: Sequence[str] = ()
) -> dict[str, tuple[Document, ...]]:
    """Return the documents of each file by its name.

    Args:
        names: files of documents.
        holders: more files, of whose ResourceClaims counts only what they have.

    Raises:
        ConfigError: every violation, with the file's name in front.
    """
    found: dict[str, tuple[Document, ...]] = {}
    violations: list[str] = []
    for name in dict.fromkeys((*names, *holders)):
        try:
            found[name] = parse_manifests(read_text(name), only_taken=name not in names)
        except ConfigError as error:
            violations += [f"{name}: {line}" for line in error.violations]
    if violations:
        raise ConfigError(violations)
    return found
