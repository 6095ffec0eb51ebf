"""Heartbeat, metrics and privileged facts, written for the shim and for probes."""
