"""Offload features: the kernel in memory against the one we run on, of a veth both."""

from errno import ENODEV, EOPNOTSUPP

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.model import Ns, Switches
from dranet_nri.plan.ops import MoveLink, SetFeatures, SetPrivateFlags
from dranet_nri.plan.port import Session
from tests.contract.cases import in_pod, move_in, refused

TSO, TSO6, SG = "tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-scatter-gather"


def features(
    *, on: tuple[str, ...] = (), off: tuple[str, ...] = (), strict: bool = True
) -> SetFeatures:
    return SetFeatures(Ns.HOST, "eth1", Switches(on, off), strict)


def test_a_link_has_features_that_are_at_work_and_others_that_are_not(session: Session) -> None:
    state = session.ethtool("eth1")

    assert {TSO, TSO6, SG} <= {*state.features.on} & {*state.active}
    assert "rx-gro" in state.features.off
    assert "rx-gro" not in state.active
    assert state.private_flags == Switches()


def test_switching_twice_is_switching_once(session: Session) -> None:
    before = session.ethtool("eth1")
    session.apply(features(on=("rx-gro",), off=(TSO,)))
    once = session.ethtool("eth1")
    session.apply(features(on=("rx-gro",), off=(TSO,)))

    assert session.ethtool("eth1") == once
    assert {*once.features.on} - {*before.features.on} == {"rx-gro"}
    assert {*before.features.on} - {*once.features.on} == {TSO}
    assert TSO not in once.active


def test_a_move_keeps_features(session: Session) -> None:
    session.apply(features(on=("rx-gro",), off=(TSO,)))
    before = session.ethtool("eth1")

    move_in(session)
    session.apply(MoveLink(Ns.POD, in_pod(session).link.index, Ns.HOST, "eth1"))

    assert session.ethtool("eth1") == before


def test_what_a_feature_needs_decides_whether_it_is_at_work(session: Session) -> None:
    session.apply(features(off=(SG,)))
    state = session.ethtool("eth1")

    assert TSO in state.features.on
    assert TSO not in state.active
    error = refused(session, features(on=(TSO,)))
    assert error.code == EOPNOTSUPP
    assert f"does not take {TSO} on" in error.detail
    session.apply(features(on=(TSO,), strict=False))
    session.apply(features(on=(SG,)))
    assert TSO in session.ethtool("eth1").active


@pytest.mark.parametrize(
    "op",
    [features(on=("warp",)), SetPrivateFlags(Ns.HOST, "eth1", Switches(on=("warp",)))],
    ids=["feature", "private flag"],
)
def test_an_unknown_name_is_refused(session: Session, op: SetFeatures | SetPrivateFlags) -> None:
    assert refused(session, op).code == EOPNOTSUPP


def test_a_link_that_is_not_there_has_none(session: Session) -> None:
    with pytest.raises(KernelError) as caught:
        session.ethtool("eth9")

    assert caught.value.code == ENODEV
