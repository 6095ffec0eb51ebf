"""Checkpoint: the allocation records of this node."""
