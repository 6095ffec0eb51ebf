"""NRI: the protocol and its connection."""
