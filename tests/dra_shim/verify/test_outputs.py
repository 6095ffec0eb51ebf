"""Parsers of the output of the measuring programs. Unknown output is no measurement."""

from __future__ import annotations

from functools import partial

import pytest

from dra_shim.verify import outputs
from dra_shim.verify.outputs import LinkOutput, RdmaPortOutput, parse_facts

FACTS = """
memlock 8192
capabilities 00000000a80425fb
link lo 1 65536 00:00:00:00:00:00 -1
link net1 1 9000 52:54:00:00:00:01 200000
link net2 0 1500 52:54:00:00:00:02 -1
rdma mlx5_0 4: ACTIVE 200 Gb/sec (4X HDR)
rdma mlx5_1 1: DOWN 10 Gb/sec (4X SDR)
gid mlx5_0 0 fe80:0000:0000:0000:5054:00ff:fe00:0001 RoCE v1
gid mlx5_0 3 0000:0000:0000:0000:0000:ffff:0a09:0001 RoCE v2
gid mlx5_0 9 0000:0000:0000:0000:0000:0000:0000:0000 RoCE v2
pkey mlx5_1 0xffff
pkey mlx5_1 0x0000
sh: line 9: noise
"""
LATENCY = """
 #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec] ...
 2       1000          1.61           9.81         1.66               1.68   0.1 1.9 2.4
"""
WRITE = """
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 65536      5000             197.13             196.86             0.375475
"""


def test_facts_of_a_pod_are_parsed() -> None:
    facts = parse_facts(FACTS)

    assert facts.memlock_mib == 8
    assert facts.links["net1"] == LinkOutput(
        up=True, mtu=9000, mac="52:54:00:00:00:01", speed_gbit=200
    )
    assert facts.links["net2"] == LinkOutput(
        up=False, mtu=1500, mac="52:54:00:00:00:02", speed_gbit=0
    )
    port = facts.ports["mlx5_0"]
    assert (port.active, port.rate_gbit, sorted(port.gids)) == (True, 200, [0, 3])
    assert facts.ports["mlx5_1"] == RdmaPortOutput(
        active=False, rate_gbit=10, gids={}, pkeys=frozenset({0xFFFF})
    )


@pytest.mark.parametrize("line", ["memlock unlimited", "memlock 64\ncapabilities 0000000000004000"])
def test_unlimited_locked_memory_is_parsed(line: str) -> None:
    assert parse_facts(line).memlock_mib == float("inf")


@pytest.mark.parametrize(
    ("gids", "address", "index"),
    [
        pytest.param({1: ("0000:0000:0000:0000:0000:ffff:0a09:0001", "RoCE v2")}, "10.9.0.1", 1,
                     id="of the address"),
        pytest.param({1: ("0000:0000:0000:0000:0000:ffff:0a09:0001", "RoCE v1")}, "10.9.0.1", None,
                     id="of the old version"),
        pytest.param({0: ("fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2")}, "10.9.0.1", None,
                     id="of another address"),
        pytest.param({0: ("fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2")}, "fd00::1", 0,
                     id="IPv6"),
        pytest.param({0: ("fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2"),
                      2: ("fd00:0000:0000:0000:0000:0000:0000:0001", "RoCE v2")}, "fd00::1", 2,
                     id="IPv6, routed"),
        pytest.param({0: ("fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1")}, "", 0,
                     id="InfiniBand"),
        pytest.param({}, "", None, id="none"),
    ],
)  # fmt: skip
def test_gid_of_a_nic_is_found(gids: dict[int, tuple[str, str]], address: str, index: int) -> None:
    assert (
        outputs.usable_gid(
            RdmaPortOutput(active=True, rate_gbit=1, gids=gids, pkeys=frozenset()), address
        )
        == index
    )


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        pytest.param({0xFFFF}, {0x7FFF}, True, id="full and limited"),
        pytest.param({0x7FFF}, {0x7FFF}, False, id="both limited"),
        pytest.param({0x8001}, {0x8002}, False, id="two partitions"),
        pytest.param({0x8001, 0x7FFF}, {0x8002, 0xFFFF}, True, id="one of two"),
        pytest.param(set(), {0xFFFF}, False, id="none"),
    ],
)
def test_common_partition_is_detected(one: set[int], other: set[int], *, shared: bool) -> None:
    assert bool(outputs.share_partition(frozenset(one), frozenset(other))) is shared


def test_measurements_are_parsed() -> None:
    assert outputs.parse_loss("9 packets transmitted, 8 received, 11.1111% packet loss") == 11.1111
    assert outputs.parse_latency(LATENCY) == 1.66
    assert outputs.parse_write(WRITE, 1) == 196.86
    assert outputs.parse_iperf3('{"end": {"sum_received": {"bits_per_second": 2e9}}}') == 2
    route = "10.9.0.2 from 10.9.0.1 dev net1 uid 0\n    cache"
    assert outputs.parse_route_device(route) == "net1"
    assert outputs.parse_gateway(route) == ""
    assert outputs.parse_gateway("10.9.0.2 from 10.9.0.1 via 10.9.1.1 dev net1") == "10.9.1.1"
    assert outputs.parse_neighbour("10.9.0.2 lladdr 52:54:00:00:00:0A REACHABLE") == (
        "52:54:00:00:00:0a"
    )


def test_rates_are_computed_from_messages_without_a_cpu_clock() -> None:
    write = " 65536      550           0.000000            0.000000            0.000000\n"
    latency = " 2       200          inf            inf          inf             inf      -nan\n"

    assert outputs.parse_write(write, 2) == pytest.approx(550 * 65536 * 8 / 2 / 1e9)
    assert outputs.parse_latency(latency) is None
    assert outputs.parse_counted_latency(" 2       4000       inf       0.00\n", 2) == 500
    assert [outputs.counted_seconds(duration) for duration in (1, 5)] == [1, 3]


@pytest.mark.parametrize("text", ["", "connect: no route", "{}", '{"end": {}}', "12 a b c"])
def test_output_without_a_measurement_is_none(text: str) -> None:
    parsers = (
        *(outputs.parse_loss, outputs.parse_latency, outputs.parse_iperf3),
        partial(outputs.parse_write, seconds=1),
        partial(outputs.parse_counted_latency, seconds=1),
    )
    assert {parse(text) for parse in parsers} == {None}
    assert outputs.parse_route_device(text) == outputs.parse_neighbour("10.9.0.2 FAILED") == ""
