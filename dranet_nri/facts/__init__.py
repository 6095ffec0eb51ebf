"""What the host shows now, as plain values. Reads only, and needs no privilege."""
