"""Settings of a NIC's driver: set by a claim, seen in the pod by ethtool, restored on the host."""

import json
from collections.abc import Iterator
from errno import EINVAL

import pytest

from dranet_nri.config import parse_network_config
from dranet_nri.errors import AttachError, RefusedError
from dranet_nri.model import NetworkConfig, Phase
from tests.box.boxnic import Function
from tests.system.kernel.rails import Rails, rails

MACHINE = "uml"  # on no other

ROWS = {
    "rings": (
        {"rings": {"rx": 512, "rxJumbo": 1024, "tx": 128}},
        "-g",
        {"rx": 512, "rx-jumbo": 1024, "tx": 128},
    ),
    "channels": ({"channels": {"combined": 2}}, "-l", {"combined": 2}),
    "coalesce": (
        {
            "coalesce": {
                "rxUsecs": 20,
                "rxFrames": 21,
                "rxUsecsIrq": 22,
                "rxFramesIrq": 23,
                "txUsecs": 0,
                "txFrames": 25,
                "txUsecsIrq": 26,
                "txFramesIrq": 27,
                "adaptiveRx": True,
                "adaptiveTx": True,
            }
        },
        "-c",
        {
            "rx-usecs": 20,
            "rx-frames": 21,
            "rx-usecs-irq": 22,
            "rx-frames-irq": 23,
            "tx-usecs": 0,
            "tx-frames": 25,
            "tx-usecs-irq": 26,
            "tx-frames-irq": 27,
            "adaptive-rx": True,
            "adaptive-tx": True,
        },
    ),
    "pause": ({"pause": {"rx": True, "tx": True}}, "-a", {"rx": True, "tx": True}),
}


@pytest.fixture
def name(rebound: Function) -> str:
    return rebound.name


@pytest.fixture
def host(name: str) -> Iterator[Rails]:
    with rails(0) as host:
        host.take(name)
        host.shown(f"-L {name} combined 4", tool="ethtool")
        yield host


def config(ethtool: dict[str, object]) -> NetworkConfig:
    return parse_network_config({"ethtool": ethtool})


def shown(host: Rails, option: str, name: str, pod: int | None = None) -> dict[str, object]:
    (found,) = json.loads("\n".join(host.shown(f"--json {option} {name}", pod, "ethtool")))
    return {str(key): value for key, value in found.items()}


def table(host: Rails, name: str, pod: int | None = None) -> list[int]:
    found = shown(host, "-x", name, pod)["rss-indirection-table"]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(("claimed", "option", "values"), ROWS.values(), ids=ROWS)
def test_driver_setting_is_applied_in_the_pod_and_restored_on_the_host(
    name: str,
    host: Rails,
    claimed: dict[str, object],
    option: str,
    values: dict[str, int | bool],
) -> None:
    before = shown(host, option, name)

    record = host.attach(name, config=config(claimed))

    in_pod = shown(host, option, name, 0)
    assert {key: in_pod[key] for key in values} == values
    assert host.detach(record).phase is Phase.RESTORED
    assert shown(host, option, name) == before


@pytest.mark.parametrize(
    ("claimed", "queues"),
    [
        ({"rss": {"equal": 2}}, {0: 64, 1: 64}),
        ({"rss": {"weights": [1, 0, 3]}}, {0: 32, 2: 96}),
        ({"rss": {"equal": 2}, "channels": {"combined": 2}}, {0: 64, 1: 64}),
        ({"rss": {"equal": 8}, "channels": {"combined": 8}}, dict.fromkeys(range(8), 16)),
    ],
    ids=str,
)
def test_rss_is_applied_in_the_pod_and_follows_the_channels_on_the_host(
    name: str, host: Rails, claimed: dict[str, object], queues: dict[int, int]
) -> None:
    before, key = table(host, name), shown(host, "-x", name)["rss-hash-function"]

    record = host.attach(name, config=config(claimed))

    in_pod = table(host, name, 0)
    assert {queue: in_pod.count(queue) for queue in in_pod} == queues
    assert shown(host, "-x", name, 0)["rss-hash-function"] == key
    detached = host.detach(record)
    assert detached.phase is Phase.RESTORED, detached
    assert table(host, name) == before
    host.shown(f"-L {name} combined 3", tool="ethtool")
    assert {*table(host, name)} == {0, 1, 2}, "the driver no longer follows the channels"


def test_private_flag_is_applied_in_the_pod_and_restored_on_the_host(
    name: str, host: Rails
) -> None:
    assert "legacy-rx: off" in host.shown(f"--show-priv-flags {name}", tool="ethtool")

    record = host.attach(name, config=config({"privateFlags": {"legacy-rx": True}}))

    assert "legacy-rx: on" in host.shown(f"--show-priv-flags {name}", 0, "ethtool")
    assert host.detach(record).phase is Phase.RESTORED
    assert "legacy-rx: off" in host.shown(f"--show-priv-flags {name}", tool="ethtool")


def test_rss_set_by_the_host_is_restored(name: str, host: Rails) -> None:
    host.shown(f"-X {name} weight 3 1", tool="ethtool")
    before = table(host, name)

    record = host.attach(name, config=config({"rss": {"equal": 4}}))

    assert {*table(host, name, 0)} == {*range(4)}
    assert host.detach(record).phase is Phase.RESTORED
    assert table(host, name) == before


@pytest.mark.parametrize(
    ("claimed", "text"),
    [
        ({"rings": {"rx": 5000}}, r"ethtool\.rings\.rx 5000 is above .* its maximum is 4096"),
        (
            {"rings": {"rxMini": 1}},
            r"rings\.rxMini: .* one of: rings\.rx, rings\.rxJumbo, rings\.tx",
        ),
        ({"rss": {"equal": 9}}, r"ethtool\.rss\.equal names 9 receive queues, .* has 4"),
    ],
    ids=str,
)
def test_unsupported_setting_is_refused_with_field_value_and_remedy(
    name: str, host: Rails, claimed: dict[str, object], text: str
) -> None:
    with pytest.raises(RefusedError, match=text):
        host.attach(name, config=config(claimed))


def test_coalescing_setting_that_the_driver_lacks_is_refused(host: Rails, far: Function) -> None:
    name = far.name
    host.take(name)

    with pytest.raises(RefusedError, match=r"adaptiveRx: .* use one of: coalesce\.rxUsecs, coal"):
        host.attach(name, config=config({"coalesce": {"adaptiveRx": True}}))

    host.ip(f"link set {name} netns 1")


def test_setting_rejected_by_the_driver_leaves_the_device_unchanged(
    name: str, host: Rails, rebound: Function
) -> None:
    before = shown(host, "-c", name)

    with (
        rebound.failing("rings", EINVAL),
        pytest.raises(AttachError, match=r"set rings\.rx 512 of .*EINVAL.* change it in ethtool"),
    ):
        host.attach(name, config=config({"coalesce": {"rxUsecs": 9}, "rings": {"rx": 512}}))

    assert shown(host, "-c", name) == before
    assert any(name in line for line in host.shown("link show"))
