"""Plans as data: operations, and the planner that derives them from desired and observed state."""
