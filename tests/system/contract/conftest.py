"""The two kernels of the contract, one after the other: in memory, and the real one."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dranet_nri.model import NetnsId
from dranet_nri.plan.kernel import Session
from tests.system.contract.worlds import FakeWorld, RealWorld, World


@pytest.fixture(params=["fake", "real"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Return a world with nothing but loopbacks."""
    made: World = FakeWorld() if request.param == "fake" else RealWorld(tmp_path)
    with closing(made):
        yield made


@pytest.fixture
def pod(world: World) -> NetnsId:
    """Return a held namespace; the host has a link eth1 that is down."""
    world.add_link("eth1")
    netns = world.add_netns()
    assert world.kernel.hold(netns)
    return netns


@pytest.fixture
def session(world: World, pod: NetnsId) -> Iterator[Session]:
    """Return a session with the pod."""
    with closing(world.kernel.session(pod)) as opened:
        yield opened
    world.kernel.release(pod)
