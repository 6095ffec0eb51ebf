"""The verb `validate`: check manifests before they reach a cluster."""

import argparse
import sys

from dra_shim.claims import (
    DeviceClass,
    Document,
    OtherObject,
    Parameters,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
    parse_manifests,
)
from dra_shim.commands.documents import STDIN, read_text
from dranet_nri.errors import ConfigError
from dranet_nri.report import say


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the verb's flags."""
    parser.add_argument(
        "files", nargs="+", metavar="FILE",
        help="ResourceClaims, ResourceClaimTemplates, DeviceClasses, ResourceSlices (YAML or JSON, "
        "several documents), or one bare NetworkConfig; - for standard input",
    )  # fmt: skip


def main(args: argparse.Namespace) -> int:
    """Print a line for each document that is right and, on standard error, for each error."""
    wrong = False
    for name in dict.fromkeys(args.files):
        title = "standard input" if name == STDIN else name
        try:
            documents = parse_manifests(read_text(name))
            if not documents:
                raise ConfigError(["document: holds nothing; check the path"])
        except ConfigError as error:
            wrong = True
            for line in error.violations:
                say(f"{title}: {line}", to=sys.stderr)
        else:
            for document in documents:
                say(f"{title}: {_verdict(document)}")
    return 1 if wrong else 0


def _verdict(document: Document) -> str:
    match document:
        case ResourceClaim(namespace, name) | ResourceClaimTemplate(namespace, name):
            full = f"{namespace}/{name}" if namespace else name
            return f"{type(document).__name__} {full} is valid"
        case DeviceClass(name) | ResourceSlice(name):
            return f"{type(document).__name__} {name} is valid"
        case Parameters():
            return "NetworkConfig is valid"
        case OtherObject(kind, name):
            return f"{' '.join(filter(None, (kind, name)))} was not checked"
