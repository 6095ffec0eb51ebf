"""Pods whose containers write down, on the node, which links they had when they started."""

from __future__ import annotations

from typing import Final

from tests.system.cluster import documents
from tests.system.cluster.api import Object
from tests.system.cluster.node import Node
from tests.system.cluster.pods import Pods

BOOK: Final = "/tmp/witnessed"  # a directory of the node, a file a pod, a line a start
NOTE: Final = "echo $(ls /sys/class/net) >>{path}"


def apply_witness(pods: Pods, pod: str, nic: str, *, restarts: bool = True) -> None:
    """Create a pod that claims this NIC and stays; its container starts again if it may."""
    document = witness(pod, {"resourceClaimName": pod}, restarts=restarts)
    claim = documents.nic_claim(pod, nic)
    pods.apply(documents.manifest(documents.device_class(), claim, document))


def witness(name: str, claim: dict[str, str], *, restarts: bool) -> Object:
    """Return a pod whose one container lists a claim, and stays when it has written what it saw.

    Args:
        name: the pod's, and its file's.
        claim: where it comes from, as in the pod's spec.
        restarts: whether a container that ended is started again.
    """
    note = NOTE.format(path=f"{BOOK}/{name}")
    return documents.pod(
        name,
        "nic",
        source=claim,
        main={
            "command": ["sh", "-c", f"{note}; exec sleep 1000000"],
            "volumeMounts": [{"name": "book", "mountPath": BOOK}],
        },
        restartPolicy="Always" if restarts else "Never",
        volumes=[{"name": "book", "hostPath": {"path": BOOK, "type": "DirectoryOrCreate"}}],
    )


def witnessed(node: Node, pod: str) -> list[set[str]]:
    """Return the links that a pod's container had, start by start."""
    return [{*line.split()} for line in node.run("cat", f"{BOOK}/{pod}").stdout.splitlines()]
