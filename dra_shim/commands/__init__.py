"""Commands of `dra-shim`, one module per command."""
