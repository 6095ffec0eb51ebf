"""Heartbeat, metrics and TCX facts, written for the shim and for probes."""
