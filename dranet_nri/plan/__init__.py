"""Plans as data: the operations, and the planner from desired and observed state."""
