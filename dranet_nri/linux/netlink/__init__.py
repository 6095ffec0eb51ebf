"""Netlink: message codec, sockets, and readers of rtnetlink."""
