"""Tests in this directory run inside the node in a box: hack/test vm."""

from tests.box.fixtures import containerd, cri, runtime

__all__ = ["containerd", "cri", "runtime"]
