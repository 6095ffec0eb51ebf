"""NRI (Node Resource Interface): the protocol and its connection."""
