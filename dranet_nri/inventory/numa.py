"""NUMA proximity: nodes at the minimum distance from a device's node, on the same socket.

Origin: KEP-6072 and k8s.io/dynamic-resource-allocation/deviceattribute (numa_linux.go), with equal
results. There the columns of a distance table are node numbers, here the online nodes, as in the
kernel.
"""

from collections.abc import Mapping, Sequence


def near(node: int, distances: Mapping[int, int], sockets: Mapping[int, int]) -> tuple[int, ...]:
    """Return the node, then the nodes of its socket at the minimum distance, ascending.

    Args:
        node: the node.
        distances: node -> distance, from the firmware's SLIT.
        sockets: node -> socket of its CPUs. A node without CPUs counts as of the same socket, and
            so do all if the node's own socket is unknown.
    """
    others = {other: distance for other, distance in distances.items() if other != node}
    least = min(others.values(), default=0)
    own = sockets.get(node)
    return (
        node,
        *(
            other
            for other in sorted(others)
            if others[other] == least and (own is None or sockets.get(other, own) == own)
        ),
    )


def near_nodes(
    nodes: Sequence[int], table: Mapping[int, str], sockets: Mapping[int, int]
) -> tuple[tuple[int, ...], ...]:
    """Return `near` of each node; only itself for a node with invalid distances.

    Args:
        nodes: online nodes, ascending.
        table: node -> line of distances, one per online node (sysfs-devices-node).
        sockets: see near.
    """
    return tuple(near(node, _distances(nodes, table.get(node, "")), sockets) for node in nodes)


def _distances(nodes: Sequence[int], line: str) -> Mapping[int, int]:
    words = line.split()
    if len(words) != len(nodes) or not all(word.isdecimal() for word in words):
        return {}
    return dict(zip(nodes, map(int, words), strict=True))
