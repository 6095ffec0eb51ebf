"""Offload features and private flags in plans."""

from dataclasses import replace

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    EthtoolConfig,
    EthtoolState,
    LinkState,
    NetworkConfig,
    Ns,
    Observed,
    Switches,
)
from dranet_nri.plan.ops import MoveLink, Op, Plan, SetDown, SetFeatures, SetPrivateFlags
from dranet_nri.plan.planner import AttachTarget, is_incomplete, is_restored, is_usable, make_plan
from dranet_nri.plan.pod_network import pod_network
from dranet_nri.plan.restore import RestoreTarget
from tests.dranet_nri.plan.examples import PLAIN, away, kinds, on_host

TSO = ("tx-tcp-segmentation", "tx-tcp6-segmentation")
STATE = EthtoolState(
    features=Switches(on=("tx-scatter-gather", *TSO), off=("rx-gro", "rx-lro")),
    active=("rx-vlan-hw-parse", "tx-scatter-gather", *TSO),
    private_flags=Switches(on=("legacy-rx",), off=("rx-pause",)),
)
HOST = replace(PLAIN, ethtool=STATE)


def config(on: tuple[str, ...] = (), off: tuple[str, ...] = ()) -> NetworkConfig:
    return NetworkConfig(ethtool=EthtoolConfig(features=Switches(on, off)))


def flags(on: tuple[str, ...] = (), off: tuple[str, ...] = ()) -> NetworkConfig:
    return NetworkConfig(ethtool=EthtoolConfig(private_flags=Switches(on, off)))


def into_pod(claimed_config: NetworkConfig, host: LinkState = HOST) -> Plan:
    return make_plan(AttachTarget(pod_network(claimed_config, host), host), on_host(host))


def switched(ops: Plan) -> list[Op]:
    return [op for op in ops if isinstance(op, SetFeatures | SetPrivateFlags)]


# --------------------------------------------------------------------------- into the pod


def test_features_are_changed_on_the_host_while_the_link_is_down() -> None:
    ops = into_pod(config(on=("rx-gro",), off=("tso",)))

    desired = SetFeatures(Ns.HOST, PLAIN.link.name, Switches(("rx-gro",), TSO), strict=True)
    assert switched(ops) == [desired]
    assert kinds(ops)[:3] == [SetDown, SetFeatures, MoveLink]


def test_features_with_the_wanted_value_are_not_changed() -> None:
    assert switched(into_pod(config(on=("tso",), off=("lro",)))) == []


def test_requested_but_inactive_feature_is_requested_again() -> None:
    host = replace(HOST, ethtool=replace(STATE, active=("tx-scatter-gather",)))

    (op,) = switched(into_pod(config(on=TSO), host))

    assert op == SetFeatures(Ns.HOST, PLAIN.link.name, Switches(on=TSO), strict=True)


def test_feature_name_takes_precedence_over_an_alias() -> None:
    (op,) = switched(into_pod(config(on=("tx-tcp6-segmentation",), off=("tso",))))

    assert isinstance(op, SetFeatures)
    assert op.features == Switches(off=("tx-tcp-segmentation",))


def test_private_flags_are_set_before_features() -> None:
    both = NetworkConfig(
        ethtool=EthtoolConfig(Switches(on=("gro",)), Switches(on=("rx-pause",), off=("legacy-rx",)))
    )

    ops = switched(into_pod(both))

    first = SetPrivateFlags(Ns.HOST, PLAIN.link.name, Switches(("rx-pause",), ("legacy-rx",)))
    assert ops == [
        first,
        SetFeatures(Ns.HOST, PLAIN.link.name, Switches(on=("rx-gro",)), strict=True),
    ]


@pytest.mark.parametrize(
    ("desired", "text"),
    [
        (
            config(on=("warp",)),
            "ethtool.features.warp: device eth1 has no such feature that",
        ),
        (config(on=("ufo",)), "use one of: rx-gro, rx-lro, tx-scatter-gather"),
        (config(off=("ufo1",)), "ethtool.features.ufo1: device eth1 has no such feature that"),
        (config(off=("rxvlan",)), "ethtool.features.rxvlan: device eth1 has no such feature that"),
        (flags(on=("warp",)), "ethtool.privateFlags.warp: device eth1 has no such private flag"),
    ],
)
def test_missing_feature_is_refused(desired: NetworkConfig, text: str) -> None:
    with pytest.raises(RefusedError, match=text):
        pod_network(desired, HOST)


@pytest.mark.parametrize(
    "desired",
    [
        config(off=("large-receive-offload",)),  # dranet's documented claim, on a dummy device
        config(off=("rx-lro",)),
        config(on=("rx-vlan-offload",)),
    ],
)
def test_fixed_feature_with_the_wanted_value_is_accepted(
    desired: NetworkConfig,
) -> None:
    host = replace(HOST, ethtool=replace(STATE, features=Switches(on=TSO)))

    assert switched(into_pod(desired, host)) == []


def test_missing_private_flags_are_reported() -> None:
    without_flags = replace(HOST, ethtool=replace(STATE, private_flags=Switches()))

    with pytest.raises(RefusedError, match="use one of: none"):
        pod_network(flags(on=("warp",)), without_flags)


def test_no_feature_is_changed_without_a_known_state() -> None:
    network = pod_network(
        NetworkConfig(ethtool=EthtoolConfig(Switches(on=("gro",)), Switches(on=("x",)))), PLAIN
    )

    assert (network.features, network.private_flags) == (Switches(), Switches())
    assert (
        switched(
            make_plan(
                AttachTarget(replace(network, features=Switches(on=TSO)), PLAIN), on_host(PLAIN)
            )
        )
        == []
    )


# --------------------------------------------------------------------------- restore


def left(state: EthtoolState | None) -> Observed:
    return on_host(replace(HOST, ethtool=state))


def test_features_are_restored_after_the_move_to_the_host() -> None:
    changed = replace(STATE, features=Switches(("tx-scatter-gather",), ("rx-gro", "rx-lro", *TSO)))
    link = replace(PLAIN.link, name="net1")

    ops = make_plan(RestoreTarget(HOST), away(replace(PLAIN, link=link, ethtool=changed)))

    assert switched(ops) == [SetFeatures(Ns.HOST, "eth1", Switches(on=TSO), strict=False)]
    order = kinds(ops)
    assert order.index(MoveLink) < order.index(SetFeatures)
    assert not is_incomplete(HOST, ops)
    assert switched(make_plan(RestoreTarget(HOST), away(replace(PLAIN, link=link)))) == []


def test_features_and_private_flags_are_restored_on_the_host() -> None:
    features = Switches(on=("rx-gro", "tx-scatter-gather"), off=("rx-lro", *TSO))
    changed = EthtoolState(features, (), Switches(off=("legacy-rx", "rx-pause")))

    ops = make_plan(RestoreTarget(HOST), left(changed))

    assert ops == (
        SetPrivateFlags(Ns.HOST, "eth1", Switches(on=("legacy-rx",))),
        SetFeatures(Ns.HOST, "eth1", Switches(TSO, ("rx-gro",)), strict=False),
    )
    assert not is_incomplete(HOST, ops)
    assert not is_restored(RestoreTarget(HOST), left(changed))
    assert is_usable(RestoreTarget(HOST), left(changed))


def test_requested_features_count_on_the_host() -> None:
    idle = replace(STATE, active=())

    assert is_restored(RestoreTarget(HOST), left(idle))


def test_features_unknown_in_snapshot_or_state_are_unchanged() -> None:
    assert make_plan(RestoreTarget(HOST), left(None)) == ()
    assert make_plan(RestoreTarget(PLAIN), left(STATE)) == ()


# --------------------------------------------------------------------------- in words


def test_feature_operations_are_printed() -> None:
    mixed = Switches(("rx-gro",), ("rx-lro",))

    features = SetFeatures(Ns.HOST, "eth1", mixed, strict=True)
    assert str(features) == "set features rx-gro on, rx-lro off of eth1 in host"
    private = SetPrivateFlags(Ns.HOST, "eth1", mixed)
    assert str(private) == "set private flags rx-gro on, rx-lro off of eth1 in host"
