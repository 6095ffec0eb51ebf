"""Host facts: plain values read from the kernel, without changes and without privilege."""
