"""The node's NRI plugin: moves allocated NICs into pods and brings them home."""
