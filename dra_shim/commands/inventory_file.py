"""Inventory of the flag --inventory, or of this node."""

import sys
from argparse import Namespace

from dra_shim.cel import unknown_in_filter
from dra_shim.commands.documents import read_text
from dra_shim.scheduling.inputs import parse_inventory, read_inventory
from dranet_nri.component.output import print_lines
from dranet_nri.errors import ConfigError
from dranet_nri.inventory import HostFacts, Inventory


def inventory_of(args: Namespace) -> tuple[Inventory, HostFacts | None]:
    """Return the inventory, that of this node with the facts it was built from.

    Prints a warning for each probably misspelt attribute in --filter and --shared.

    Args:
        args: with the flags --inventory, --azure-size, --filter and --shared.

    Raises:
        KernelError: the kernel refused a dump.
        InvalidValueError: the size is unknown.
        ConfigError: all violations of the file, or a size is given with a file.
    """
    for flag, expression in (("--filter", args.filter), ("--shared", args.shared)):
        for line in unknown_in_filter(expression):
            print_lines(f"dra-shim: {flag}: {line}", to=sys.stderr)
    if args.inventory is None:
        return read_inventory(args.azure_size)
    if args.azure_size:
        rule = "not possible with --inventory; give it to the 'dranet-nri inventory' that writes it"
        raise ConfigError([f"--azure-size {args.azure_size}: {rule}"])
    try:
        return parse_inventory(read_text(str(args.inventory))), None
    except ConfigError as error:
        violations = [f"--inventory {args.inventory}: {line}" for line in error.violations]
        raise ConfigError(violations) from None
