"""Rings, channels, coalescing, flow control and receive-side scaling in plans."""

from dataclasses import replace

import pytest

from dranet_nri.errors import RefusedError
from dranet_nri.model import (
    DriverSetting,
    EthtoolConfig,
    EthtoolState,
    LinkState,
    NetworkConfig,
    Ns,
    RssConfig,
    RssState,
)
from dranet_nri.plan.ops import MoveLink, Op, Plan, SetDown
from dranet_nri.plan.planner import AttachTarget, is_restored, is_usable, make_plan
from dranet_nri.plan.pod_network import pod_network
from dranet_nri.plan.restore import RestoreTarget
from dranet_nri.plan.settings.driver import equal_table
from dranet_nri.plan.settings.driver_ops import SetDriver, SetRss
from tests.dranet_nri.plan.examples import PLAIN, away, kinds, on_host

NAME = PLAIN.link.name


def settings(**values: int) -> tuple[DriverSetting, ...]:
    return tuple(
        DriverSetting(name.replace("_", "."), value, 4096) for name, value in values.items()
    )


STATE = EthtoolState(
    settings=settings(rings_rx=256, rings_tx=256, channels_combined=8, coalesce_rxUsecs=3),
    rss=RssState(equal_table(8, 16), 8),
)
HOST = replace(PLAIN, ethtool=STATE)


def config(*driver: DriverSetting, rss: RssConfig | None = None) -> NetworkConfig:
    return NetworkConfig(ethtool=EthtoolConfig(settings=driver, rss=rss))


def into_pod(claimed_config: NetworkConfig, host: LinkState = HOST) -> Plan:
    return make_plan(AttachTarget(pod_network(claimed_config, host), host), on_host(host))


def claimed(claimed_config: tuple[DriverSetting, ...]) -> SetDriver:
    return SetDriver(Ns.HOST, NAME, claimed_config, claimed=True)


def restored(**values: int) -> SetDriver:
    return SetDriver(Ns.HOST, NAME, settings(**values), claimed=False)


def driver_ops(ops: Plan) -> Plan:
    return tuple(op for op in ops if isinstance(op, SetDriver | SetRss))


def test_group_is_set_by_one_request_on_the_host_while_the_link_is_down() -> None:
    desired = settings(rings_rx=512, rings_tx=128, coalesce_rxUsecs=0)

    ops = into_pod(config(*desired))

    assert driver_ops(ops) == (
        claimed(desired[:2]),
        claimed(desired[2:]),
    )
    assert kinds(ops)[:3] == [SetDown, SetDriver, MoveLink]


def test_unchanged_settings_are_not_set() -> None:
    assert driver_ops(into_pod(config(*settings(rings_rx=256), rss=RssConfig(equal=8)))) == ()


@pytest.mark.parametrize(
    ("rss", "table"),
    [
        (RssConfig(equal=3), equal_table(3, 16)),
        (RssConfig(weights=(1, 0, 3)), (0,) * 4 + (2,) * 12),
        (RssConfig(weights=(2, 1)), (0,) * 11 + (1,) * 5),
        (RssConfig(weights=(0, 16)), (1,) * 16),
    ],
    ids=str,
)
def test_rss_configuration_becomes_a_table(rss: RssConfig, table: tuple[int, ...]) -> None:
    assert driver_ops(into_pod(config(rss=rss))) == (SetRss(Ns.HOST, NAME, table, claimed=True),)


@pytest.mark.parametrize(("channels", "first"), [(4, SetRss), (16, SetDriver)])
def test_rss_table_contains_no_missing_queue(channels: int, first: type[Op]) -> None:
    desired = config(*settings(channels_combined=channels), rss=RssConfig(equal=3))

    assert kinds(driver_ops(into_pod(desired)))[0] is first


def test_equal_rss_over_all_queues_is_the_driver_default() -> None:
    desired = config(*settings(channels_combined=4), rss=RssConfig(equal=4))

    assert driver_ops(into_pod(desired))[0] == SetRss(Ns.HOST, NAME, (), claimed=True)


@pytest.mark.parametrize(
    ("desired", "text"),
    [
        (
            config(*settings(rings_rxMini=1)),
            r"ethtool\.rings\.rxMini: device eth1 has no such setting; remove it or use one of:"
            r" rings\.rx, rings\.tx",
        ),
        (config(*settings(pause_rx=1)), r"ethtool\.pause\.rx: .* use one of: none"),
        (
            config(*settings(rings_rx=4097)),
            r"ethtool\.rings\.rx 4097 is above what device eth1 can do; its maximum is 4096",
        ),
        (
            config(rss=RssConfig(equal=9)),
            r"ethtool\.rss\.equal names 9 receive queues, but device eth1 has 8; name fewer",
        ),
        (
            config(*settings(channels_combined=2), rss=RssConfig(weights=(1, 1, 1, 0))),
            r"ethtool\.rss\.weights names 3 receive queues, but device eth1 has 2",
        ),
        (
            config(rss=RssConfig(weights=(16, 1))),
            r"ethtool\.rss\.weights: the sum 17 is above the 16 entries",
        ),
    ],
)
def test_unsupported_setting_is_refused(desired: NetworkConfig, text: str) -> None:
    with pytest.raises(RefusedError, match=text):
        pod_network(desired, HOST)


@pytest.mark.parametrize("rss", [None, RssState((), 8)])
def test_rss_is_refused_on_a_device_without_a_table(rss: RssState | None) -> None:
    host = replace(HOST, ethtool=replace(STATE, rss=rss))

    with pytest.raises(RefusedError, match=r"ethtool\.rss: device eth1 has no indirection table"):
        pod_network(config(rss=RssConfig(equal=1)), host)


def test_no_setting_is_planned_without_a_known_state() -> None:
    network = pod_network(config(*settings(rings_rx=512), rss=RssConfig(equal=1)), PLAIN)

    assert driver_ops(make_plan(AttachTarget(network, PLAIN), on_host(PLAIN))) == ()


# --------------------------------------------------------------------------- restored


def left(state: EthtoolState | None) -> LinkState:
    return replace(PLAIN, ethtool=state)


@pytest.mark.parametrize("where", ["pod", "host"])
def test_changed_settings_are_restored_on_the_host(where: str) -> None:
    now = EthtoolState(
        settings=settings(rings_rx=512, rings_tx=256, channels_combined=4, coalesce_rxUsecs=0),
        rss=RssState(equal_table(2, 16), 4),
    )
    observed = away(left(now)) if where == "pod" else on_host(left(now))
    target = RestoreTarget(HOST)

    assert driver_ops(make_plan(target, observed)) == (
        restored(rings_rx=256),
        restored(channels_combined=8),
        restored(coalesce_rxUsecs=3),
        SetRss(Ns.HOST, NAME, (), claimed=False),
    )
    assert not is_restored(target, on_host(left(now)))
    assert is_usable(target, on_host(left(now)))


def test_rss_table_of_the_host_is_restored_before_its_channels_are_reduced() -> None:
    table = (0, 0, 0, 1) * 4
    before = replace(STATE, settings=settings(channels_combined=2), rss=RssState(table, 2))
    now = replace(
        STATE, settings=settings(channels_combined=8), rss=RssState(equal_table(8, 16), 8)
    )

    ops = make_plan(RestoreTarget(left(before)), on_host(left(now)))

    assert driver_ops(ops) == (
        SetRss(Ns.HOST, NAME, table, claimed=False),
        restored(channels_combined=2),
    )


@pytest.mark.parametrize(
    ("before", "now"), [(STATE, EthtoolState()), (EthtoolState(), STATE), (STATE, None)]
)
def test_settings_unknown_in_the_snapshot_are_unchanged(
    before: EthtoolState, now: EthtoolState | None
) -> None:
    assert make_plan(RestoreTarget(left(before)), on_host(left(now))) == ()


def test_driver_operations_are_printed() -> None:
    assert str(SetDriver(Ns.HOST, "eth1", settings(rings_rx=512, rings_tx=128), claimed=True)) == (
        "set rings.rx 512, rings.tx 128 of eth1 in host"
    )
    rss = SetRss(Ns.HOST, "eth1", (0, 1, 0, 1), claimed=True)
    assert str(rss) == "set RSS of eth1 to 2 queues in host"
    assert str(replace(rss, table=())) == "set RSS of eth1 to its default in host"


def test_groups_are_those_of_the_known_state() -> None:
    assert STATE.groups == {"rings", "channels", "coalesce", "rss"}
    assert EthtoolState().groups == frozenset()
