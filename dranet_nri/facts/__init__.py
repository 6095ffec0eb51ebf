"""Host facts, read from the kernel as plain values. Reads only, and needs no privilege."""
