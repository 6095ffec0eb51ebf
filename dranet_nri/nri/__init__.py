"""NRI (Node Resource Interface): wire protocol and connection."""
