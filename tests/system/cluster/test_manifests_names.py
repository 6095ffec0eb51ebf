"""The policy for names of slices: those of the node's shim and of dranet, none of other nodes."""

from __future__ import annotations

import pytest

from dra_shim.kubeapi import SLICE, RejectedError
from dra_shim.resourceslice.layout import slice_name
from tests.system.cluster.installed import Installed, Shim
from tests.system.cluster.test_manifests import fresh, installed, nodes, shim
from tests.system.cluster.workload import Workload

__all__ = ["installed", "nodes", "shim"]
NAMES = "may only create ResourceSlices whose names begin"


@pytest.mark.parametrize("name", ["{}-dra.net-000", "whatever"])
def test_slice_cannot_have_the_name_of_another_node(
    shim: Shim, nodes: tuple[Workload, Workload], name: str
) -> None:
    document = fresh(nodes[0].name)
    document["metadata"]["name"] = name.format(nodes[1].name)

    with pytest.raises(RejectedError, match=NAMES):
        shim.asks(lambda api: api.create(SLICE, document))


def test_node_with_a_long_name_creates_its_slices(
    installed: Installed, nodes: tuple[Workload, Workload]
) -> None:
    node = ".".join(["n" * 59] * 4)
    document = fresh(node) | {"metadata": {"name": slice_name(node, 0)}}
    other = fresh(node) | {"metadata": {"name": slice_name(nodes[1].name, 0)}}
    shim = installed.shim(node)

    assert shim.asks(lambda api: api.create(SLICE, document, dry_run=True))
    with pytest.raises(RejectedError, match="denied request"):
        shim.asks(lambda api: api.create(SLICE, other, dry_run=True))


@pytest.mark.parametrize("prefix", ["0-dra.net-{}-", "1f-dra.net-{}-", "{}-dra.net-"])
def test_slices_of_dranet_after_a_rollback_have_generated_names(
    shim: Shim, nodes: tuple[Workload, Workload], prefix: str
) -> None:
    node = nodes[0].name
    own = fresh(node) | {"metadata": {"generateName": prefix.format(node)}}
    other = fresh(node) | {"metadata": {"generateName": prefix.format(nodes[1].name)}}

    assert shim.asks(lambda api: api.create(SLICE, own, dry_run=True))
    with pytest.raises(RejectedError, match=NAMES):
        shim.asks(lambda api: api.create(SLICE, other, dry_run=True))


@pytest.mark.parametrize("prefix", ["0-dra.net-{}-", "{}-dra.net-"])
def test_truncated_generated_name_is_compared_in_full(
    installed: Installed, nodes: tuple[Workload, Workload], prefix: str
) -> None:
    node = ".".join(["n" * 59, nodes[0].name, prefix[0].replace("{", "n")])
    own = fresh(node) | {"metadata": {"generateName": prefix.format(node)}}
    shim = installed.shim(node)

    assert shim.asks(lambda api: api.create(SLICE, own, dry_run=True))


def test_explicit_name_takes_precedence_over_a_generated_name(
    shim: Shim, nodes: tuple[Workload, Workload]
) -> None:
    document = fresh(nodes[0].name)
    document["metadata"] = {
        "name": slice_name(nodes[1].name, 7),
        "generateName": f"0-dra.net-{nodes[0].name}-",
    }

    with pytest.raises(RejectedError, match=NAMES):
        shim.asks(lambda api: api.create(SLICE, document, dry_run=True))
