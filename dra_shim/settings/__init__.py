"""Settings of the commands, parsed from flags and environment."""
