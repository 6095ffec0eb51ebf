"""NRI event handlers and the admission of containers."""
