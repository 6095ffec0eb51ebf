"""Checks before and after an attach: owners, published devices, devices in their pods."""
