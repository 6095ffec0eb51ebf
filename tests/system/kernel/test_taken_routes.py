"""Routes of claims and hosts in pods that have such routes already, on the real kernel."""

import pytest

from dranet_nri.model import (
    EthtoolConfig,
    InterfaceConfig,
    NetworkConfig,
    Phase,
    RouteConfig,
    Switches,
)
from tests.system.kernel.rails import Rails, rails


def give_default_routes(host: Rails) -> None:
    """Give the pod what a CNI gives it."""
    host.ip("route add default via 10.244.1.1 dev eth0", pod=0)
    host.ip("-6 route add default via fd44::1 dev eth0", pod=0)


def routed(*routes: RouteConfig, addresses: tuple[str, ...] | None = None) -> NetworkConfig:
    return NetworkConfig(InterfaceConfig(addresses=addresses), routes)


@pytest.mark.parametrize(
    ("prefix", "gateway", "metrics"),
    [("0.0.0.0/0", "10.5.{}.1", ("1", "2")), ("::/0", "fd00:{}::1", ("1025", "1026"))],
)
def test_claimed_default_route_has_a_higher_metric_than_that_of_the_cni(
    prefix: str, gateway: str, metrics: tuple[str, str]
) -> None:
    with rails(2) as host:
        give_default_routes(host)
        family = "-6" if ":" in prefix else "-4"
        for number, metric in enumerate(metrics):
            config = routed(RouteConfig(prefix, gateway.format(number)))

            record = host.attach(f"nic{number}", config=config)

            assert record.phase is Phase.ATTACHED
            assert (
                f"is a backup with metric {metric}, because eth0" in record.devices[0].warnings[0]
            )
        shown = host.shown(f"{family} route show default", pod=0)
        assert [line.split(" dev ")[1].split(" ")[0] for line in shown] == ["eth0", "nic0", "nic1"]


def test_claimed_metric_is_kept() -> None:
    with rails(1) as host:
        give_default_routes(host)

        record = host.attach("nic0", config=routed(RouteConfig("::/0", "fd00::1", metric=5)))

        assert record.devices[0].warnings == ()
        assert "nic0" in host.shown("-6 route show default", pod=0)[0]


@pytest.mark.parametrize(
    "address", [("169.254.169.14/24",), ("169.254.169.14/24", "10.9.0.1/24"), None]
)
def test_route_to_the_network_of_its_own_address_gets_the_next_metric(
    address: tuple[str, ...] | None,
) -> None:
    net = "169.254.169" if address else "10.5.0"
    with rails(1) as host:
        through = RouteConfig(f"{net}.0/24", gateway=f"{net}.1")
        same = RouteConfig(f"{net}.0/24", scope=253)
        direct = RouteConfig(f"{net}.1/32", scope=253)

        record = host.attach("nic0", config=routed(through, same, direct, addresses=address))

        assert record.phase is Phase.ATTACHED
        shown = host.shown(f"route show {net}.0/24", pod=0)
        assert [line.partition("via")[2][:4] for line in shown] == ["", f" {net}"[:4]]
        assert "metric 1" in shown[1]


@pytest.mark.parametrize("prefix", ["10.244.0.0/16", "fd77::/48"])
def test_inherited_route_present_in_the_pod_is_omitted_with_a_warning(prefix: str) -> None:
    family, gateway = ("-6", "fd00::1") if ":" in prefix else ("-4", "10.5.0.1")
    cni = "fd44::9" if ":" in prefix else "10.244.1.9"
    with rails(1) as host:
        host.ip(f"{family} route add {prefix} via {gateway} dev nic0 metric 1024")
        host.ip(f"{family} route add {prefix} via {cni} dev eth0 metric 1024", pod=0)
        before = host.routes(prefix)

        record = host.attach("nic0")

        assert f"route {prefix} of the host" in record.devices[0].warnings[0]
        (way,) = host.routes(prefix, pod=0)
        assert "dev eth0" in way
        assert host.detach(record).phase is Phase.RESTORED
        assert host.routes(prefix) == before


def test_documented_claim_of_dranet_is_attached_and_restored() -> None:
    off = ("generic-receive-offload", "large-receive-offload", "tcp-segmentation-offload")
    config = NetworkConfig(
        InterfaceConfig(
            name="dranet0",
            addresses=("169.254.169.14/24",),
            mtu=4321,
            hardware_addr="00:11:22:33:44:55",
        ),
        (
            RouteConfig("169.254.169.0/24", gateway="169.254.169.1"),
            RouteConfig("169.254.169.1/32", scope=253),
        ),
        ethtool=EthtoolConfig(features=Switches(off=off)),
    )
    with rails(1) as host:
        before = host.shown("-d link show nic0")

        record = host.attach("nic0", config=config)

        assert record.phase is Phase.ATTACHED
        assert any("mtu 4321" in line for line in host.shown("link show dranet0", pod=0))
        assert host.detach(record).phase is Phase.RESTORED
        assert host.shown("-d link show nic0") == before
