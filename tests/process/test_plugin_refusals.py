"""Which containers and pods are refused, and which never are."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.model import Mount
from tests.fakes.node import Node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Return a node with two NICs."""
    made = Node(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize("foreign_first", [True, False])
def test_a_container_with_a_file_of_its_own_and_a_foreign_one_is_refused(
    node: Node, *, foreign_first: bool
) -> None:
    pod, other = node.pod("web"), node.pod("other")
    claims = [node.allocate(pod, 1, claim="mine"), node.allocate(other, 2, claim="theirs")]
    node.run_pod(pod)
    node.run_pod(other)
    sources = [f"{node.gate.metadata_dir}/{each.claim.uid}/nic/metadata.json" for each in claims]
    mounts = [Mount(source, f"/x/{number}") for number, source in enumerate(sources)]

    node.create(pod, mounts[0])
    with pytest.raises(RefusedError, match="lists claim default/theirs, which pod default/other"):
        node.create(pod, *(reversed(mounts) if foreign_first else mounts))


def test_a_container_with_a_file_of_its_own_and_one_of_an_older_sandbox_is_refused(
    node: Node,
) -> None:
    old, new = node.pod("web", "one"), node.pod("web", "two")
    left = node.allocate(old, 1, claim="left")
    node.run_pod(old)
    node.allocations.remove(left.claim.uid)
    claim = node.allocate(new, 2, claim="mine")
    node.run_pod(new)
    mounts = [
        Mount(
            f"{node.gate.metadata_dir}/{each.claim.uid}/nic/metadata.json", f"/x/{each.claim.uid}"
        )
        for each in (claim, left)
    ]

    with pytest.raises(RefusedError, match="claim default/left is in sandbox one, not in two"):
        node.create(new, *mounts)
