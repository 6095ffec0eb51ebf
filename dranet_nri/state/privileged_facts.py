"""Privileged facts of the host: a file that the plugin writes for the shim.

For each link of the host's network namespace, it has the names of its TCX programs, the kinds of
its upper links in other namespaces, and what sends through it, such as IPsec. The shim has no
capability to read them.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from dranet_nri.component.files import FileSystem, read_file, save
from dranet_nri.errors import StateCorruptError, StateVersionError

NAME: Final = "facts.json"
READABLE: Final = 0o644
_VERSION: Final = 1
_LIMIT: Final = 4 << 20  # bytes; thousands of links, each with the maximum of programs

_PROGRAM: Final = re.compile(r"[0-9A-Za-z_.]{1,15}")  # BPF_OBJ_NAME_LEN, linux/bpf.h
_KIND: Final = re.compile(r"[!-~]{1,55}")  # MODULE_NAME_LEN of Linux

Programs = Mapping[int, tuple[str, ...]]  # ifindex -> names
UpperKinds = Mapping[int, tuple[str, ...]]  # ifindex -> kinds of upper links in other namespaces
Underlays = Mapping[int, tuple[str, ...]]  # ifindex -> what sends through it, as in underlays.py


@dataclass(frozen=True, slots=True)
class PrivilegedFacts:
    """Host facts that need privilege to read."""

    programs: Programs = field(default_factory=dict)
    upper_kinds: UpperKinds = field(default_factory=dict)
    underlays: Underlays = field(default_factory=dict)


def encoded(facts: PrivilegedFacts) -> bytes:
    """Return the file's content."""
    programs, upper_kinds, underlays = (
        {str(index): by_ifindex[index] for index in sorted(by_ifindex)}
        for by_ifindex in (facts.programs, facts.upper_kinds, facts.underlays)
    )
    written = {
        "version": _VERSION,
        "programs": programs,
        "upperKinds": upper_kinds,
        "underlays": underlays,
    }
    return json.dumps(written).encode()


def decoded(data: bytes) -> PrivilegedFacts:
    """Return the facts in the file's content.

    Raises:
        StateError: the content is not of this format.
    """
    try:
        fields = json.loads(data)
        if (version := fields["version"]) != _VERSION:
            raise StateVersionError(f"{NAME}: version {version!r}, this program reads {_VERSION}")
        return PrivilegedFacts(
            _decoded_names(fields["programs"], _PROGRAM),
            _decoded_names(fields["upperKinds"], _KIND),
            _decoded_names(fields["underlays"], _KIND),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as cause:
        raise StateCorruptError(f"{NAME}: not a file of the plugin: {cause!r}") from cause


def store(fs: FileSystem, run: Path, content: bytes) -> None:
    """Write the file into the plugin's directory, which is on tmpfs.

    Raises:
        OSError: it cannot be written.
    """
    save(fs, run / NAME, content, durable=False, mode=READABLE)


def version_of(run: Path) -> tuple[int, int, int] | None:
    """Return inode, time in ns and size of the file, which differ after a write; None without it.

    Raises:
        OSError: it cannot be read.
    """
    try:
        status = (run / NAME).lstat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def load(run: Path) -> PrivilegedFacts:
    """Return the facts in the plugin's directory; none without a file.

    Raises:
        OSError: it cannot be read.
        StateError: it is not a file of this format.
    """
    try:
        return decoded(read_file(run / NAME, _LIMIT))
    except FileNotFoundError:
        return PrivilegedFacts()


def _decoded_names(
    fields: Mapping[str, object], allowed: re.Pattern[str]
) -> Mapping[int, tuple[str, ...]]:
    return {int(index): _names(names, allowed) for index, names in fields.items()}


def _names(names: object, allowed: re.Pattern[str]) -> tuple[str, ...]:
    if not isinstance(names, list):
        raise TypeError(f"names: {names!r}")
    for name in names:
        if not allowed.fullmatch(name):
            raise ValueError(f"{name!r} is not a name")
    return tuple(names)
