"""Heartbeat, metrics and TCX facts, written for the other process."""
