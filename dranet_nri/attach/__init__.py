"""Attach and detach of the devices of whole pods, and repairs."""
