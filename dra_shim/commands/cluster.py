"""Objects of a cluster for the commands, read once through a kubeconfig."""

import asyncio
import json
import os
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dra_shim.kubeapi import (
    CLAIM,
    CLASS,
    SLICE,
    TEMPLATE,
    ApiClient,
    HttpClient,
    Kind,
    rest_config_of,
)
from dra_shim.resourceapi import Document, parse_manifests
from dranet_nri.errors import ConfigError

KINDS: Final = (SLICE, CLAIM, TEMPLATE, CLASS)
_PAGE: Final = 100  # objects per page


def add_cluster_flags(parser: ArgumentParser) -> None:
    """Add the flags that select a cluster."""
    parser.add_argument(
        "--cluster",
        action="store_true",
        help="read slices, claims, templates and classes from the cluster of the kubeconfig",
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="default: the first file of $KUBECONFIG, else ~/.kube/config",
    )


def read_cluster(kubeconfig: Path | None, kinds: Sequence[Kind] = KINDS) -> tuple[Document, ...]:
    """Return all objects of some kinds; of a claim with a newer API only the allocation is read.

    Args:
        kubeconfig: the file, None for that of kubectl.
        kinds: kinds of API objects.

    Raises:
        InvalidValueError: the kubeconfig cannot be used.
        ApiError: the server does not answer, or refuses.
        ConfigError: an object is invalid.
    """
    return asyncio.run(_read(kubeconfig or default_kubeconfig(), kinds))


def default_kubeconfig() -> Path:
    """Return the file that kubectl reads first."""
    first = os.environ.get("KUBECONFIG", "").partition(os.pathsep)[0]
    return Path(first) if first else Path.home() / ".kube" / "config"


async def _read(kubeconfig: Path, kinds: Sequence[Kind]) -> tuple[Document, ...]:
    api = ApiClient(HttpClient(rest_config_of(kubeconfig, {})))
    found: list[Document] = []
    try:
        for kind in kinds:
            group = {"apiVersion": f"{kind.group}/{await api.version(kind)}", "kind": kind.name}
            async for page in api.pages(kind, _PAGE):
                for item in page.items:  # items of a list lack apiVersion and kind
                    found += _document(json.dumps({**item, **group}), kind)
    finally:
        await api.close()
    return tuple(found)


def _document(text: str, kind: Kind) -> tuple[Document, ...]:
    try:
        return parse_manifests(text)
    except ConfigError:
        if kind is not CLAIM:
            raise
        return parse_manifests(text, only_allocated=True)
