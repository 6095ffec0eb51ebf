"""Random valid parameters on the kernel in memory: attached, and restored without residue."""

import pytest

from dranet_nri.config import parse_network_config
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

        world.apply(world.plan(world.at_home))

        assert is_restored(world.at_home, world.look()), number
        world.assert_restored()


def test_every_child_type_is_covered() -> None:
    parsed = [parse_network_config(random_parameters(number)) for number in NUMBERS]

    kinds = [config.interface.child and config.interface.child.kind for config in parsed]
    assert {*kinds} == {None, "IPVLAN", "MACVLAN", "VLAN"}
    assert len({*map(repr, parsed)}) > 200
    for given in ("vrf", "mtu", "hardware_addr", "disable_ebpf", "addresses"):
        assert any(getattr(config.interface, given) for config in parsed), given
