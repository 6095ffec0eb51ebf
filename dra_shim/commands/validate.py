"""The verb `validate`: checks manifests before they are applied to a cluster."""

import argparse
import sys
from collections.abc import Sequence

from dra_shim.commands.documents import STDIN, read_text
from dra_shim.commands.together import Together, checked_together, title_of
from dra_shim.resourceapi import (
    DeviceClass,
    Document,
    OtherObject,
    Parameters,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    Workload,
    parse_manifests,
)
from dranet_nri.component.findings import print_lines
from dranet_nri.errors import ConfigError


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE",
        help="ResourceClaims, ResourceClaimTemplates, DeviceClasses, ResourceSlices, Pods and what "
        "makes them (YAML or JSON, several documents), or one bare NetworkConfig; - for standard "
        "input",
    )  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Print a line for each document that is right and, on standard error, for each error."""
    wrong = False
    found: list[Document] = []
    for name in dict.fromkeys(args.files):
        title = "standard input" if name == STDIN else name
        try:
            documents = parse_manifests(read_text(name))
            if not documents:
                raise ConfigError(["document: holds nothing; check the path"])
        except ConfigError as error:
            wrong = True
            for line in error.violations:
                print_lines(f"{title}: {line}", to=sys.stderr)
        else:
            found += documents
            for document in documents:
                print_lines(f"{title}: {_verdict(document)}")
    return 1 if wrong or not _fit(found) else 0


def _fit(documents: Sequence[Document]) -> bool:
    """Whether the documents fit each other; print what does not, and what may not be meant so."""
    try:
        together = checked_together(documents)
    except ConfigError as error:
        together = Together(error.violations, ())
    for line in together.violations:
        print_lines(line, to=sys.stderr)
    for line in together.warnings:
        print_lines(f"warning: {line}", to=sys.stderr)
    return not together.violations


def _verdict(document: Document) -> str:
    match document:
        case ResourceClaim() | ResourceClaimTemplate():
            return f"{title_of(document)} is valid"
        case DeviceClass(name) | ResourceSlice(name):
            return f"{type(document).__name__} {name} is valid"
        case Parameters():
            return "NetworkConfig is valid"
        case Workload():
            return f"{title_of(document)}: only its claims are checked"
        case OtherObject(kind, name):
            return f"{' '.join(filter(None, (kind, name)))} was not checked"
