"""The process `dra-shim run`: wiring, sources and log."""
