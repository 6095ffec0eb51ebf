"""Command `validate`: checks manifests before they are applied to a cluster."""

import argparse
import sys
from typing import Final

from dra_shim.commands.cross_check import CrossCheck, cross_check, title_of
from dra_shim.commands.documents import files_below, read_text, title_of_file
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
from dranet_nri.component.output import add_output_flag, print_lines, show_document
from dranet_nri.errors import ConfigError

EXAMPLES: Final = (
    "validate claim.yaml class.yaml pod.yaml",
    "validate manifests/",
    "validate - < claim.yaml",
)


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE",
        help="ResourceClaims, ResourceClaimTemplates, DeviceClasses, ResourceSlices, Pods and what "
        "makes them (YAML or JSON, several documents), or one bare NetworkConfig; a directory for "
        "all files below it; - for standard input",
    )  # fmt: skip
    add_output_flag(parser)


def main(args: argparse.Namespace) -> int:
    """Print valid documents, and errors on standard error; return 1 if there are errors.

    Raises:
        ConfigError: a directory has no manifest.
    """
    errors: list[str] = []
    found: list[tuple[str, Document]] = []
    for name in files_below(args.files):
        title = title_of_file(name)
        try:
            documents = parse_manifests(read_text(name))
            if not documents:
                raise ConfigError(["document: holds nothing; check the path"])
        except ConfigError as error:
            errors += (f"{title}: {line}" for line in error.violations)
        else:
            found += ((title, document) for document in documents)
    try:
        together = cross_check([document for _, document in found])
    except ConfigError as error:
        together = CrossCheck(error.violations, ())
    errors += together.violations
    valid = [
        f"{title}: {_result(document)}"
        for title, document in found
        if title_of(document) not in together.wrong
    ]
    document = {"valid": valid, "errors": errors, "warnings": list(together.warnings)}
    if not show_document(args.output, lambda: document):
        print_lines(*valid)
        print_lines(*errors, *(f"warning: {line}" for line in together.warnings), to=sys.stderr)
    return 1 if errors else 0


def _result(document: Document) -> str:
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
