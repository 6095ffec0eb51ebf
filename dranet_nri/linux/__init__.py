"""Raw kernel interfaces: netlink, RDMA netlink, BPF, inotify."""
