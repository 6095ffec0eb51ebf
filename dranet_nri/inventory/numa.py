"""NUMA nodes at the least distance from a device's own node, on the same socket.

Origin: KEP-6072 and k8s.io/dynamic-resource-allocation/deviceattribute (numa_linux.go), whose lists
these are; there the columns of a distance table count as numbers of nodes, here as the nodes that
are online, as the kernel writes them.
"""

from collections.abc import Mapping, Sequence


def near(node: int, distances: Mapping[int, int], sockets: Mapping[int, int]) -> tuple[int, ...]:
    """Return the node, then the others of its socket that are at the least distance, ascending.

    Args:
        node: it.
        distances: of each node from it, as the firmware's SLIT has them.
        sockets: node -> the socket of its CPUs. One without CPUs is taken to be of the same socket,
            and so are all where its own is unknown.
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
    """Return `near` of each node; a node whose distances make no sense is alone.

    Args:
        nodes: those online, ascending.
        table: node -> its line of distances, one for each node online (sysfs-devices-node).
        sockets: as for near.
    """
    return tuple(near(node, _distances(nodes, table.get(node, "")), sockets) for node in nodes)


def _distances(nodes: Sequence[int], line: str) -> Mapping[int, int]:
    words = line.split()
    if len(words) != len(nodes) or not all(word.isdecimal() for word in words):
        return {}
    return dict(zip(nodes, map(int, words), strict=True))
