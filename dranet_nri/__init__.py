"""The node's NRI plugin: it moves allocated NICs into pods and restores them on the host."""
