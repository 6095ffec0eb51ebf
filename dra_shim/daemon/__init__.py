"""Process of `dra-shim run`: construction, API server sources and log."""
