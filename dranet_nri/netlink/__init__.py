"""rtnetlink as bytes and one socket: shared by what reads the host and what changes it."""
