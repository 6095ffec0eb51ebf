"""The thin DRA shim: discovers, publishes, records allocations and reports."""
