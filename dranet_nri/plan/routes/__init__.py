"""Routes of plans: comparison, conflicts, source-based routing and VRFs."""
