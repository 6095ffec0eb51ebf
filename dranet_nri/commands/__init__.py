"""Commands of `dranet-nri`, one module per command."""
