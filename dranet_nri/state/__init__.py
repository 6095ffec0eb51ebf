"""The records through which the two processes talk, and the store that keeps them."""
