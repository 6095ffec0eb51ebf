"""The scheduler offline: allocation from files, and its explanation."""
