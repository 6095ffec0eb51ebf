"""Raw kernel interfaces: netlink, RDMA netlink, bpf, inotify."""
