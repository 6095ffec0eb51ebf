"""The room with kernel power: netlink, namespaces and sysctls, one function a call."""
