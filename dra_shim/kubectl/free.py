"""Command `free`: number of free GPU and NIC pairs on each node."""

import argparse
from typing import Final

from dra_shim.kubectl.cluster import node_named, read_nodes
from dra_shim.kubectl.pairs import free_pairs_of
from dra_shim.kubectl.source import ObjectSource, add_source_flags
from dranet_nri.component.output import (
    add_output_flag,
    fields_of,
    print_lines,
    show_document,
    show_table,
)

EXAMPLES: Final = ("free", "free node-a", "free --output json")
_COLUMNS: Final = ("NODE", "PAIRS", "NEAR", "GPUS", "NICS")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("node", nargs="?", default="", metavar="NODE", help="only this node")
    add_source_flags(parser)
    add_output_flag(parser)


def main(args: argparse.Namespace) -> int:
    """Print a line for each node, and a table of all.

    Raises:
        DranetError: the cluster or the files cannot be read, or no such node has devices.
    """
    nodes = read_nodes(ObjectSource(args))
    if args.node:
        nodes = (node_named(nodes, args.node),)
    nodes_free = [free_pairs_of(node) for node in nodes if node.devices]
    if show_document(args.output, lambda: {"nodes": [fields_of(free) for free in nodes_free]}):
        return 0
    if not nodes_free:
        print_lines("no node publishes devices; check that the driver runs on it")
    print_lines(*(free.text for free in nodes_free))
    if len(nodes_free) > 1:
        rows = [
            (
                free.node, f"{free.pairs} of {free.all_pairs}", free.near or "-",
                f"{free.gpus} of {free.all_gpus}", f"{free.nics} of {free.all_nics}",
            )
            for free in nodes_free
        ]  # fmt: skip
        print_lines("")
        show_table([_COLUMNS, *rows])
    return 0
