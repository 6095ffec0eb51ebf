"""Netlink: message codec, sockets, and rtnetlink's links, for readers and writers."""
