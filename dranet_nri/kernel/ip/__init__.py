"""Addresses, routes, rules, neighbours and VRFs: one function per rtnetlink request."""
