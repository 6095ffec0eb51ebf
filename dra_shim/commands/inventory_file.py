"""Inventory of the flag --inventory, or of this node."""

from argparse import Namespace

from dra_shim.commands.documents import read_text
from dra_shim.scheduling.inputs import parse_inventory, read_inventory
from dranet_nri.errors import ConfigError
from dranet_nri.inventory import HostFacts, Inventory


def inventory_of(args: Namespace) -> tuple[Inventory, HostFacts | None]:
    """Return the inventory, that of this node with the facts it was built from.

    Args:
        args: with the flags --inventory and --azure-size.

    Raises:
        KernelError: the kernel refused a dump.
        InvalidValueError: the size is unknown.
        ConfigError: all violations of the file, or a size is given with a file.
    """
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
