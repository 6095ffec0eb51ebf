"""The NICs without hardware: ethtool settings, resets, binding and injected failures."""

import errno
import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.box.boxnic import (
    Frame,
    Function,
    Listener,
    ethtool,
    refused,
    send,
    set_vf,
    shown,
    virtual_of,
)
from tests.box.nics import ip

MACHINE = "uml"  # on no other

OTHER_MAC = "02:00:00:00:00:42"
VLAN = 42


# ------------------------------------------------------------------- ethtool


def test_driver_information_is_reported(physical: Function, virtual: Function) -> None:
    for function in (physical, virtual):
        facts = dict(row.split(": ", 1) for row in ethtool("-i", function.name).splitlines())
        assert facts["driver"] == function.driver
        assert facts["bus-info"] == function.address
        assert facts["firmware-version"] == "1.0"


def test_speed_is_the_configured_one(physical: Function) -> None:
    assert physical.interface("speed") == "1000"
    with physical.setting("speed", 25000):
        assert physical.interface("speed") == "25000"


ETHTOOL: tuple[tuple[str, str, dict[str, int | bool]], ...] = (
    ("-G rx 512 tx 128", "-g", {"rx": 512, "tx": 128}),
    ("-L combined 4", "-l", {"combined": 4}),
    ("-C rx-usecs 20 tx-usecs 30", "-c", {"rx-usecs": 20, "tx-usecs": 30}),
    ("-A autoneg off rx on tx on", "-a", {"rx": True, "tx": True}),
)


def test_rss_table_is_kept_and_the_default_follows_the_channels(rebound: Function) -> None:
    name = rebound.name
    ethtool("-L", name, "combined", "4")
    ethtool("-X", name, "equal", "2")
    assert table(name) == {0, 1}
    with refused(errno.EINVAL):
        set_by_ethtool(rebound, "-L combined 1")

    ethtool("-X", name, "default")
    ethtool("-L", name, "combined", "3")
    assert table(name) == {0, 1, 2}


def table(name: str) -> set[int]:
    (shown,) = json.loads(ethtool("--json", "-x", name))
    return {*shown["rss-indirection-table"]}


def test_ethtool_settings_are_kept(rebound: Function) -> None:
    for change, show, values in ETHTOOL:
        set_by_ethtool(rebound, change)

        (settings,) = json.loads(ethtool("--json", show, rebound.name))
        assert {key: settings[key] for key in values} == values


def test_channels_are_queues(rebound: Function) -> None:
    queues = Path("/sys/class/net", rebound.name, "queues")

    set_by_ethtool(rebound, "-L combined 3")

    assert len(list(queues.glob("tx-*"))) == 3
    with refused(errno.EINVAL):
        set_by_ethtool(rebound, "-L combined 9")


FEATURES = {
    "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload",
    "gro": "generic-receive-offload",
    "tx": "tx-checksumming",
    "rx": "rx-checksumming",
    "rxvlan": "rx-vlan-offload",
    "txvlan": "tx-vlan-offload",
}


def test_features_can_be_disabled_and_enabled(rebound: Function) -> None:
    for state in ("off", "on"):
        for option, text in FEATURES.items():
            ethtool("-K", rebound.name, option, state)
            assert f"{text}: {state}\n" in ethtool("-k", rebound.name)


def test_private_flag_is_kept(rebound: Function) -> None:
    ethtool("--set-priv-flags", rebound.name, "legacy-rx", "on")

    assert "legacy-rx: on" in ethtool("--show-priv-flags", rebound.name)


def set_by_ethtool(function: Function, change: str) -> None:
    option, *arguments = change.split()
    ethtool(option, function.name, *arguments)


# ------------------------------------------------------------------- resets and bindings


def test_ethtool_reset_drops_the_carrier(physical: Function) -> None:
    before = physical.interface("carrier_down_count"), physical.count("resets")

    ethtool("--reset", physical.name, "all")

    after = physical.interface("carrier_down_count"), physical.count("resets")
    assert [int(count) for count in after] == [int(count) + 1 for count in before]
    assert physical.has_carrier()


def test_function_level_reset_keeps_the_virtual_functions(
    physical: Function, virtual: Function, far: Function
) -> None:
    set_vf(physical, "vlan", str(VLAN))
    resets = [function.count("resets") for function in (physical, virtual)]

    for function in (physical, virtual):
        function.reset()

    assert [function.count("resets") for function in (physical, virtual)] == [
        count + 1 for count in resets
    ]
    assert physical.has_carrier()
    assert shown(physical)["vlan_list"][0]["vlan"] == VLAN
    with Listener(virtual.name) as listener:
        send(far.name, virtual.mac(), "in", vlan=VLAN)
        assert listener.next() == Frame("in")


def test_unbound_physical_function_removes_its_virtual_functions(physical: Function) -> None:
    for _ in range(2):
        virtual = virtual_of(physical, 0)
        assert virtual.name
        physical.unbind()
        assert not virtual.device.exists()
        assert not physical.name
        physical.bind()
        ip("link", "set", physical.name, "up")
        physical.make_virtual(2)


@pytest.mark.parametrize("end", ["unbind", "remove_virtual"])
def test_virtual_function_is_removed_in_its_current_namespace(
    physical: Function, rebound: Function, netns: str, end: str
) -> None:
    name = rebound.name
    ip("link", "set", name, "netns", netns)
    assert name in ip("-n", netns, "link")

    getattr(rebound if end == "unbind" else physical, end)()

    assert name not in ip("-n", netns, "link")
    if end == "unbind":
        rebound.bind()
        assert rebound.name == name
    else:
        physical.make_virtual(2)


# ------------------------------------------------------------------- faults

ACTIONS: dict[str, Callable[[Function], object]] = {
    "open": lambda f: (ip("link", "set", f.name, "down"), ip("link", "set", f.name, "up")),
    "mtu": lambda f: ip("link", "set", f.name, "mtu", "1400"),
    "mac": lambda f: ip("link", "set", f.name, "address", OTHER_MAC),
    "vlan": lambda f: ip("link", "add", "child", "link", f.name, "type", "vlan", "id", "9"),
    "rings": lambda f: ethtool("-G", f.name, "rx", "512"),
    "channels": lambda f: ethtool("-L", f.name, "combined", "2"),
    "coalesce": lambda f: ethtool("-C", f.name, "rx-usecs", "9"),
    "pause": lambda f: ethtool("-A", f.name, "autoneg", "off", "rx", "on"),
    "rss": lambda f: ethtool("-X", f.name, "equal", "1"),
    "priv-flags": lambda f: ethtool("--set-priv-flags", f.name, "legacy-rx", "on"),
    "reset": lambda f: ethtool("--reset", f.name, "all"),
}


@pytest.mark.parametrize("operation", ACTIONS)
def test_operation_fails_the_requested_number_of_times(rebound: Function, operation: str) -> None:
    with rebound.failing(operation, errno.ENOSPC, calls=2):
        assert rebound.read("fail") == f"{operation} {errno.ENOSPC} 2"
        for _ in range(2):
            with refused(errno.ENOSPC):
                ACTIONS[operation](rebound)

        assert rebound.read("fail") == ""
        ACTIONS[operation](rebound)


def test_feature_change_fails_on_request(rebound: Function) -> None:
    with (
        rebound.failing("features", errno.ENOSPC),
        pytest.raises(subprocess.CalledProcessError, match="ethtool"),
    ):
        ethtool("-K", rebound.name, "tso", "off")

    assert "tcp-segmentation-offload: on" in ethtool("-k", rebound.name)


def test_virtual_function_setup_fails_on_request(physical: Function, virtual: Function) -> None:
    with physical.failing("vf", errno.EBUSY), refused(errno.EBUSY):
        set_vf(physical, "vlan", "5")

    with physical.failing("sriov", errno.ENOSPC), refused(errno.ENOSPC):
        physical.remove_virtual()
    assert virtual.name


def test_probe_fails_on_request(rebound: Function) -> None:
    rebound.unbind()

    with rebound.failing("probe", errno.ENODEV), refused(errno.ENODEV):
        rebound.bind()

    rebound.bind()
    assert rebound.name
