"""Offload features: the kernel in memory against the one we run on, of a veth both."""

from errno import ENODEV, EOPNOTSUPP

import pytest

from dranet_nri.errors import KernelError
from dranet_nri.model import DriverSetting, EthtoolState, Ns, SettingGroup, Switches
from dranet_nri.plan.kernel import Session
from dranet_nri.plan.ops import MoveLink, SetFeatures, SetPrivateFlags
from dranet_nri.plan.settings.driver_ops import SetDriver, SetRss
from tests.system.contract.cases import in_pod, index, move_in, refused

TSO, TSO6, SG = "tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-scatter-gather"


def features(
    *, on: tuple[str, ...] = (), off: tuple[str, ...] = (), strict: bool = True
) -> SetFeatures:
    return SetFeatures(Ns.HOST, "eth1", Switches(on, off), strict)


def on_eth1(session: Session) -> EthtoolState:
    state = session.ethtool(Ns.HOST, index(session))
    assert state is not None
    return state


def test_link_has_active_and_inactive_features(session: Session) -> None:
    state = on_eth1(session)

    assert {TSO, TSO6, SG} <= {*state.features.on} & {*state.active}
    assert "rx-gro" in state.features.off
    assert "rx-gro" not in state.active
    assert state.private_flags == Switches()


def test_setting_features_is_idempotent(session: Session) -> None:
    before = on_eth1(session)
    session.apply(features(on=("rx-gro",), off=(TSO,)))
    once = on_eth1(session)
    session.apply(features(on=("rx-gro",), off=(TSO,)))

    assert on_eth1(session) == once
    assert {*once.features.on} - {*before.features.on} == {"rx-gro"}
    assert {*before.features.on} - {*once.features.on} == {TSO}
    assert TSO not in once.active


def test_move_keeps_features(session: Session) -> None:
    session.apply(features(on=("rx-gro",), off=(TSO,)))
    before = on_eth1(session)

    move_in(session)
    assert session.ethtool(Ns.POD, in_pod(session).link.index) == before
    session.apply(MoveLink(Ns.POD, in_pod(session).link.index, Ns.HOST, "eth1"))

    assert on_eth1(session) == before


def test_dependencies_decide_whether_a_feature_is_active(session: Session) -> None:
    session.apply(features(off=(SG,)))
    state = on_eth1(session)

    assert TSO in state.features.on
    assert TSO not in state.active
    error = refused(session, features(on=(TSO,)))
    assert error.code == EOPNOTSUPP
    assert f"does not take {TSO} on" in error.detail
    session.apply(features(on=(TSO,), strict=False))
    session.apply(features(on=(SG,)))
    assert TSO in on_eth1(session).active


@pytest.mark.parametrize(
    "op",
    [features(on=("warp",)), SetPrivateFlags(Ns.HOST, "eth1", Switches(on=("warp",)))],
    ids=["feature", "private flag"],
)
def test_unknown_feature_is_refused(session: Session, op: SetFeatures | SetPrivateFlags) -> None:
    assert refused(session, op).code == EOPNOTSUPP


def test_driver_without_settings_refuses_them(session: Session) -> None:
    state = session.ethtool(Ns.HOST, index(session), tuple(SettingGroup))
    assert state is not None

    assert {setting.group for setting in state.settings} <= {SettingGroup.CHANNELS}  # of a veth
    assert state.rss is None
    rings = SetDriver(Ns.HOST, "eth1", (DriverSetting("rings.rx", 512),), claimed=True)
    for op in (rings, SetRss(Ns.HOST, "eth1", (), claimed=True)):
        assert refused(session, op).code == EOPNOTSUPP


def test_missing_link_has_no_features(session: Session) -> None:
    with pytest.raises(KernelError) as caught:
        session.ethtool(Ns.HOST, 4711)

    assert caught.value.code == ENODEV
