"""Components that both daemons use."""
