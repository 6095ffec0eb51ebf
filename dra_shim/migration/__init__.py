"""Migration of claims that another driver of the same name prepared."""
