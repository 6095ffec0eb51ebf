"""Kernel adapter: netlink, network namespaces and sysctls, one function per request."""
