"""Command `verify`, the same as that of dra-shim."""

from dra_shim.commands.verify import EXAMPLES, add_flags, main

__all__ = ["EXAMPLES", "add_flags", "main"]
