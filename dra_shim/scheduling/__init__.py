"""Offline scheduler: allocation from files, and its explanation."""
