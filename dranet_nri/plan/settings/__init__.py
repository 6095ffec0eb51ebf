"""Settings of a device in plans: driver settings, offloads, BPF programs and rate limits."""
