"""Manifest files of the commands, read from paths or standard input."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NoReturn

from dra_shim.resourceapi import Document, parse_manifests
from dranet_nri.errors import ConfigError

STDIN: Final = "-"
SUFFIXES: Final = frozenset({".yaml", ".yml", ".json"})
_KUSTOMIZATIONS: Final = frozenset({"kustomization.yaml", "kustomization.yml"})


def files_below(names: Sequence[str]) -> tuple[str, ...]:
    """Return the files, each once; a directory means the manifests below it.

    A kustomization is no manifest: it may lack apiVersion and kind.

    Raises:
        ConfigError: a directory has none, or cannot be read.
    """
    found: list[str] = []
    for name in names:
        if name == STDIN or not Path(name).is_dir():
            found.append(name)
            continue
        below = sorted(
            path
            for path in _paths_below(name)
            if path.suffix in SUFFIXES and path.name not in _KUSTOMIZATIONS
        )
        if not below:
            kinds = ", ".join(sorted(SUFFIXES))
            raise ConfigError(
                [
                    f"{name}: no manifest ({kinds}) is below it; check the path, and render a "
                    "kustomization first, as by kubectl kustomize"
                ]
            )
        found += map(str, below)
    return tuple(dict.fromkeys(found))


def _paths_below(directory: str) -> Iterator[Path]:
    """Yield all files below a directory; rglob would leave out what it cannot read."""
    try:
        for folder, _, names in os.walk(directory, onerror=_raise):
            yield from (Path(folder, name) for name in names)
    except OSError as error:
        reason = f"{error.filename}: cannot be read: {error.strerror}; check the path"
        raise ConfigError([reason]) from None


def _raise(error: OSError) -> NoReturn:
    raise error


def title_of_file(name: str) -> str:
    """Return the name of a file for messages."""
    return "standard input" if name == STDIN else name


def read_text(name: str) -> str:
    """Return the text of a file, or of standard input for "-".

    Raises:
        ConfigError: the file cannot be read, or is not UTF-8.
    """
    if name == STDIN and sys.stdin is None:
        raise ConfigError(["is closed; name a file, or redirect it"])
    try:
        return sys.stdin.read() if name == STDIN else Path(name).read_text("utf-8")
    except OSError as error:
        raise ConfigError([f"cannot be read: {error.strerror}; check the path"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError([f"is not UTF-8 at byte {error.start}; save it as UTF-8"]) from None


def read_documents(names: Sequence[str]) -> tuple[Document, ...]:
    """Return the documents of all files, each file once.

    Raises:
        ConfigError: all violations, prefixed with the name of the file.
    """
    return tuple(document for documents in read_files(names).values() for document in documents)


def read_files(
    names: Sequence[str], allocated: Sequence[str] = ()
) -> dict[str, tuple[Document, ...]]:
    """Return the documents of each file by its name.

    Args:
        names: files of documents.
        allocated: further files, of whose ResourceClaims only the allocation is read.

    Raises:
        ConfigError: all violations, prefixed with the name of the file.
    """
    found: dict[str, tuple[Document, ...]] = {}
    violations: list[str] = []
    for name in dict.fromkeys((*names, *allocated)):
        try:
            found[name] = parse_manifests(read_text(name), only_allocated=name not in names)
        except ConfigError as error:
            violations += [f"{name}: {line}" for line in error.violations]
    if violations:
        raise ConfigError(violations)
    return found
