"""Command `bundle`: a support archive without secrets.

Unpacked, it is a directory for `--from`.
"""

import argparse
import io
import json
import tarfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from dra_shim.kubectl.redaction import redacted, redacted_text
from dra_shim.kubectl.source import (
    CLAIMS,
    CLASSES,
    DRIVER_PODS,
    PODS,
    SLICES,
    TEMPLATES,
    Item,
    ObjectSource,
    add_source_flags,
    has_label,
)
from dra_shim.verify.kubectl import Kubectl
from dranet_nri.component.output import naming, print_lines
from dranet_nri.errors import InvalidValueError

EXAMPLES: Final = ("bundle", "bundle --file support.tar.gz --tail 5000")
_FOLDER: Final = "dranet-bundle"  # in the archive
_CONTAINERS: Final = ("dranet", "nri")  # of the driver's pods, with logs
_LOGS_AT_A_TIME: Final = 16  # an unreachable node does not answer for half a minute
_EVENTS: Final = ("events", "Event")
_RELATED: Final = ("dra.net", "Claim", "NetworkDevice", "RDMADevice", "DynamicResources")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument(
        "--file", type=Path, default=Path("dranet-bundle.tar.gz"), metavar="FILE",
        help="path of the archive; the file must not exist",
    )  # fmt: skip
    parser.add_argument(
        "--tail", type=int, default=2000, metavar="LINES", help="lines of each container's log"
    )
    add_source_flags(parser)


def main(args: argparse.Namespace) -> int:
    """Write the archive and print its members.

    Raises:
        KubectlError: the cluster cannot be read.
        InvalidValueError: the file exists already, or a flag has no usable value.
        OSError: the archive cannot be written.
    """
    if args.tail < 1:
        raise InvalidValueError(f"--tail {args.tail}: give 1 or more")
    if args.file.exists():
        raise InvalidValueError(f"--file {args.file}: exists already; remove it, or name another")
    source = ObjectSource(args)
    members = dict(_members(source, args.tail))
    with naming(str(args.file)), tarfile.open(args.file, "x:gz") as archive:
        for name, text in members.items():
            data = text.encode("utf-8", "replace")
            member = tarfile.TarInfo(f"{_FOLDER}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    print_lines(*(f"{name}  {len(text)} characters" for name, text in members.items()))
    print_lines(f"{args.file} is written; review it before you share it")
    return 0


def _members(source: ObjectSource, tail: int) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of each file of the archive."""
    drivers = source.items(PODS, DRIVER_PODS)
    for kind in (SLICES, CLAIMS, TEMPLATES, CLASSES):
        yield _file(kind[0], source.items(kind))
    pods = [pod for pod in source.items(PODS) if _has_claims(pod)]
    yield _file(PODS[0], (*drivers, *pods))
    events = [event for event in source.items(_EVENTS) if _is_related(event)]
    yield _file(_EVENTS[0], events)
    if source.kubectl is not None:
        yield from _logs(source.kubectl, drivers, tail)


def _file(name: str, items: tuple[Item, ...] | list[Item]) -> tuple[str, str]:
    document = {"apiVersion": "v1", "kind": "List", "items": [redacted(item) for item in items]}
    return f"{name}.json", redacted_text(json.dumps(document, indent=1)) + "\n"


def _has_claims(pod: Item) -> bool:
    claims = (pod.get("spec") or {}).get("resourceClaims")
    return bool(claims) and not has_label(pod, DRIVER_PODS)


def _is_related(event: Item) -> bool:
    text = f"{event.get('reason', '')} {event.get('message', '')}"
    return any(word in text for word in _RELATED)


def _logs(kubectl: Kubectl, drivers: tuple[Item, ...], tail: int) -> Iterator[tuple[str, str]]:
    """Yield the log of each container, or why it cannot be read."""

    def log(source: tuple[Item, str]) -> tuple[str, str]:
        metadata, container = source
        text = kubectl.logs(metadata["namespace"], metadata["name"], container, tail)
        return f"logs/{metadata['name']}-{container}.log", redacted_text(text)

    sources = [(pod.get("metadata") or {}, name) for pod in drivers for name in _CONTAINERS]
    with ThreadPoolExecutor(_LOGS_AT_A_TIME) as pool:
        yield from pool.map(log, sources)
