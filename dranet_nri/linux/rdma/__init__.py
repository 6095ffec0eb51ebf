"""RDMA netlink (NETLINK_RDMA) as typed values, one socket and a source of events."""
