"""The DRA shim: discovers devices, publishes them, records allocations and reports status."""
