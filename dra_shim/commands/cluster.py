"""Objects of a cluster for the commands, read once through a kubeconfig."""

import asyncio
import os
from argparse import ArgumentParser
from pathlib import Path
from typing import Final

from dra_shim.kubeapi import (
    CLAIM,
    CLASS,
    SLICE,
    TEMPLATE,
    ApiClient,
    HttpClient,
    rest_config_of,
)
from dra_shim.resourceapi import Document, parse_stored

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


def read_cluster(kubeconfig: Path | None) -> tuple[Document, ...]:
    """Return all slices, claims, templates and classes.

    Args:
        kubeconfig: the file, None for that of kubectl.

    Raises:
        InvalidValueError: the kubeconfig cannot be used.
        ApiError: the server does not answer, or refuses.
        ConfigError: an object is invalid.
    """
    return asyncio.run(_read(kubeconfig or default_kubeconfig()))


def default_kubeconfig() -> Path:
    """Return the file that kubectl reads first."""
    first = os.environ.get("KUBECONFIG", "").partition(os.pathsep)[0]
    return Path(first) if first else Path.home() / ".kube" / "config"


async def _read(kubeconfig: Path) -> tuple[Document, ...]:
    api = ApiClient(HttpClient(rest_config_of(kubeconfig, {})))
    found: list[Document] = []
    try:
        for kind in KINDS:
            group = {"apiVersion": f"{kind.group}/{await api.version(kind)}", "kind": kind.name}
            async for page in api.pages(kind, _PAGE):
                # items of a list lack apiVersion and kind
                found += (parse_stored({**item, **group}) for item in page.items)
    finally:
        await api.close()
    return tuple(found)
