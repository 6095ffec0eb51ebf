"""Netlink as bytes and one socket, and rtnetlink's links: for who reads and who changes."""
