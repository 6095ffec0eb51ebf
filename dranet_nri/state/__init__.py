"""State records that the two processes exchange, and the store that keeps them."""
