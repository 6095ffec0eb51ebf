"""Manifest files of the verbs, read from paths or standard input."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dra_shim.resourceapi import Document, parse_manifests
from dranet_nri.errors import ConfigError

STDIN: Final = "-"
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})


def files_below(names: Sequence[str]) -> tuple[str, ...]:
    """Return the files, each once; a directory stands for the manifests below it.

    Raises:
        ConfigError: a directory has none.
    """
    found: list[str] = []
    for name in names:
        if name == STDIN or not Path(name).is_dir():
            found.append(name)
            continue
        below = sorted(path for path in Path(name).rglob("*") if path.suffix in SUFFIXES)
        if not below:
            kinds = ", ".join(sorted(SUFFIXES))
            raise ConfigError([f"{name}: no manifest ({kinds}) is below it; check the path"])
        found += map(str, below)
    return tuple(dict.fromkeys(found))


def title_of_file(name: str) -> str:
    """Return what messages call a file."""
    return "standard input" if name == STDIN else name


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
    return tuple(document for documents in read_files(names).values() for document in documents)


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
