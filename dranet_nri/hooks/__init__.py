"""NRI hook handlers and the admission of containers."""
