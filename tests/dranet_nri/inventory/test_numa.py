"""Near NUMA nodes of a device: the examples of KEP-6072, and unusual tables."""

import pytest

from dranet_nri.inventory import near_nodes

EPYC = {  # KEP-6072: NPS4, two sockets of four nodes
    node: " ".join(
        "10" if other == node else "12" if other // 4 == node // 4 else "32" for other in range(8)
    )
    for node in range(8)
}
SOCKETS = {node: node // 4 for node in range(8)}


def test_nodes_of_one_socket_are_near_and_the_own_node_is_first() -> None:
    near = near_nodes(range(8), EPYC, SOCKETS)

    assert (near[0], near[6]) == ((0, 1, 2, 3), (6, 4, 5, 7))


@pytest.mark.parametrize(
    ("nodes", "table", "sockets", "near"),
    [
        ([], {}, {}, ()),
        ([0], {0: "10"}, {0: 0}, ((0,),)),
        ([0, 1], {0: "10 21", 1: "21 10"}, {0: 0, 1: 1}, ((0,), (1,))),
        ([0, 1], {0: "10 21", 1: "21 10"}, {}, ((0, 1), (1, 0))),
        ([0, 1], {0: "10 80", 1: "80 10"}, {0: 0}, ((0, 1), (1, 0))),
        ([0, 8], {0: "10 20", 8: "20 10"}, {0: 0, 8: 0}, ((0, 8), (8, 0))),
        ([0, 1], {0: "10", 1: "x y"}, {}, ((0,), (1,))),
        ([0, 1, 2], {0: "10 11 12", 1: "11 10 11", 2: "12 11 10"}, {}, ((0, 1), (1, 0, 2), (2, 1))),
    ],
    ids=["none", "one", "a node a socket", "sockets unknown", "memory without CPUs", "gaps",
         "nonsense", "the least distance alone"],
)  # fmt: skip
def test_near_nodes_follow_distances_and_sockets(
    nodes: list[int],
    table: dict[int, str],
    sockets: dict[int, int],
    near: tuple[tuple[int, ...], ...],
) -> None:
    assert near_nodes(nodes, table, sockets) == near
