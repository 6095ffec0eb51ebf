"""NRI events: what each means, and which containers are not created."""
