"""RDMA netlink (NETLINK_RDMA): typed values, a socket and an event source."""
