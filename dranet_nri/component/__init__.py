"""Parts that both daemons are made of."""
