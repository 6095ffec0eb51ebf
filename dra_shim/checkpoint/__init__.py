"""The checkpoint: the allocation records of this node, read and written."""
