"""Attach and detach of whole pods, and the repair of both."""
