"""Random valid parameters on the kernel in memory: attached, and restored without residue."""

from collections.abc import Iterator

import pytest

from dranet_nri.config import parse_network_config
from dranet_nri.config.fields import (
    BLOCK_FIELDS,
    INTERFACE_FIELDS,
    NEIGHBOUR_FIELDS,
    ROUTE_FIELDS,
    RULE_FIELDS,
)
from dranet_nri.model import NetworkConfig
from dranet_nri.plan.planner import is_restored
from tests.dranet_nri.plan.examples import FULL
from tests.dranet_nri.plan.worlds import World
from tests.fakes.configs import random_parameters

NUMBERS = range(300)


def config(number: int) -> NetworkConfig:
    document = random_parameters(number, ("Passthrough",))
    parsed = parse_network_config(document)
    assert parsed != NetworkConfig() or document == {"interface": {}, "ethtool": {"features": {}}}
    return parsed


@pytest.mark.parametrize("part", range(4))
def test_valid_configuration_is_attached_and_leaves_no_residue(part: int) -> None:
    for number in NUMBERS[part::4]:
        world = World(FULL, config(number))
        world.apply(world.plan(world.in_pod))
        assert world.plan(world.in_pod) == (), number

        world.apply(world.plan(world.restore_target))

        assert is_restored(world.restore_target, world.look()), number
        world.assert_restored()


def test_every_child_type_is_covered() -> None:
    parsed = [parse_network_config(random_parameters(number)) for number in NUMBERS]

    kinds = [config.interface.child and config.interface.child.kind for config in parsed]
    assert {*kinds} == {None, "IPVLAN", "MACVLAN", "VLAN"}
    assert len({*map(repr, parsed)}) > 200


def test_every_field_is_covered_that_a_nic_without_queues_and_rdma_has() -> None:
    blocks = {
        "interface": INTERFACE_FIELDS.keys() - {"ipoib"},  # of an InfiniBand parent
        "routes": ROUTE_FIELDS,
        "rules": RULE_FIELDS,
        "neighbors": NEIGHBOUR_FIELDS,
        **{name: BLOCK_FIELDS[name] for name in ("ipvlan", "macvlan", "vlan", "vrf")},
    }
    given = {pair for number in NUMBERS for pair in fields(random_parameters(number))}

    assert {(block, name) for block, names in blocks.items() for name in names} <= given


def fields(value: object, block: str = "") -> Iterator[tuple[str, str]]:
    """Yield the fields of a document, each with the name of its block."""
    if isinstance(value, list):
        for entry in value:
            yield from fields(entry, block)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield block, name
            yield from fields(inner, name)
