"""Reading manifest files for the verbs."""

import sys
from collections.abc import Sequence
from pathlib import Path

from dra_shim.claims import Document, parse_manifests
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
    found: list[Document] = []
    violations: list[str] = []
    for name in dict.fromkeys(names):
        try:
            found += parse_manifests(read_text(name))
        except ConfigError as error:
            violations += [f"{name}: {line}" for line in error.violations]
    if violations:
        raise ConfigError(violations)
    return tuple(found)
