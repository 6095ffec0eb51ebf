"""Execution of plans: operations, waits, restores and the watchdog of hung work."""
