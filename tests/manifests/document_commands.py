"""Commands of other programs in the documents, and the flags that these programs have.

`recorded_flags.json` holds the flags of each subcommand, read from its `--help`. The tier `cluster`
compares the record with kubectl and Helm. Podman and Skopeo were recorded from Debian's packages.
`cloud_flags.json` holds those flags of the clouds' programs, ctr and pip that the documents use,
compared by hand with the public reference of each program.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
RECORDS: Final = [
    Path(__file__).with_name(name) for name in ("recorded_flags.json", "cloud_flags.json")
]
DOCUMENTS: Final = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "SECURITY.md")),
    *sorted((ROOT / "manifests").rglob("*.md")),
]
# The documents use no aws, eksctl and oci yet; a first command of them needs a record.
PROGRAMS: Final = (
    *("aws", "az", "ctr", "eksctl", "gcloud", "helm", "kubectl", "oci", "pip", "podman"),
    "skopeo",
)

_FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n)+")
_INLINE = re.compile(r"`([^`]+)`")
# A command ends at a pipe, another command or a redirection.
_COMMAND = re.compile(rf"(?<![\w./-])(?:{'|'.join(PROGRAMS)}) (?:'[^']*'|\"[^\"]*\"|[^'\"|&;>)])+")
_FLAG = re.compile(r"^ +(?:(-\w), )?(--[\w-]+)", re.MULTILINE)


def commands(path: Path) -> Iterator[list[str]]:
    """Yield the words of each command of PROGRAMS in a document, up to `--`."""
    text = path.read_text().replace("\\\n", " ")
    fenced = [block for language, block in _FENCED.findall(text) if language != "yaml"]
    text = _FENCED.sub("", text)
    inline = (" ".join(code.split()) for code in _INLINE.findall(_INDENTED.sub("", text)))
    for line in "\n".join((*fenced, *_INDENTED.findall(text), *inline)).splitlines():
        for command in _COMMAND.findall(line):
            arguments = shlex.split(command)
            yield arguments[: arguments.index("--")] if "--" in arguments else arguments


def subcommand(arguments: list[str], recorded: dict[str, list[str]]) -> str | None:
    """Return the longest recorded subcommand that begins a command; None: there is none.

    A value of a flag before the subcommand is joined to its flag by `=`.
    """
    plain = [word for word in arguments if not word.startswith("-")]
    prefixes = (" ".join(plain[:count]) for count in (5, 4, 3, 2))
    return next((prefix for prefix in prefixes if prefix in recorded), None)


def flags(arguments: list[str]) -> set[str]:
    """Return the flags of a command, without values."""
    return {word.partition("=")[0] for word in arguments if word.startswith("-") and word != "-"}


def known_flags(subcommand: str, recorded: dict[str, list[str]]) -> set[str]:
    """Return the flags of a recorded subcommand, with those of all commands of its program."""
    return {*recorded[subcommand], *recorded.get(subcommand.split()[0], ())}


def recorded_flags() -> dict[str, list[str]]:
    """Return the record: flags by subcommand."""
    records: list[dict[str, list[str]]] = [json.loads(path.read_text()) for path in RECORDS]
    return {verb: arguments for record in records for verb, arguments in record.items()}


def read_flags(program: Path | str, verbs: list[str]) -> list[str]:
    """Return the flags that a program lists for a subcommand; kubectl lists common ones apart."""
    call = (program, *verbs, "--help") if verbs else (program, "options")
    text = subprocess.run(call, capture_output=True, text=True, check=True, timeout=60).stdout
    return sorted({flag for match in _FLAG.findall(text) for flag in match if flag})
