"""Agreement of validation and kernel on refused parameters."""

import pytest

from dranet_nri.config import network_config_to_object, parse_network_config
from dranet_nri.errors import AttachError, ConfigError
from dranet_nri.model import InterfaceConfig, MacvlanConfig, NetworkConfig, Phase, RouteConfig
from tests.system.kernel.rails import rails


def with_addresses(*addresses: str) -> NetworkConfig:
    return NetworkConfig(InterfaceConfig(addresses=addresses))


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(with_addresses("ff02::5/64"), id="multicast"),
        pytest.param(with_addresses("::/64"), id="unspecified"),
        pytest.param(with_addresses("::1/128"), id="loopback"),
        pytest.param(with_addresses("2001:db8::5/64", "2001:db8::5/48"), id="two-lengths"),
        *(
            pytest.param(
                NetworkConfig(
                    InterfaceConfig(addresses=("10.9.0.1/24", "2001:db8::5/64")),
                    (RouteConfig(destination, gateway, source),),
                ),
                id=f"{gateway}-{source}",
            )
            for destination, gateway, source in (
                ("10.77.0.0/24", "127.0.0.1", ""),
                ("10.77.0.0/24", "224.0.0.1", ""),
                ("10.77.0.0/24", "255.255.255.255", ""),
                ("10.77.0.0/24", "10.9.0.9", "224.0.0.1"),
                ("10.77.0.0/24", "10.9.0.9", "255.255.255.255"),
                ("2001:db8:77::/64", "::", ""),
                ("2001:db8:77::/64", "::1", ""),
                ("2001:db8:77::/64", "ff02::1", ""),
                ("2001:db8:77::/64", "2001:db8::5", ""),
                ("2001:db8:77::/64", "2001:db8::9", "ff02::1"),
                ("2001:db8:77::/64", "2001:db8::9", "::1"),
            )
        ),
    ],
)
def test_parameters_refused_by_validation_are_rejected_by_the_kernel(config: NetworkConfig) -> None:
    with pytest.raises(ConfigError):
        parse_network_config(network_config_to_object(config))

    with rails(1) as host, pytest.raises(AttachError):
        host.attach("nic0", config=config)


def test_mac_of_the_parent_is_refused_for_a_child_with_the_parameter() -> None:
    mac = "02:00:5e:10:00:05"
    child = InterfaceConfig(
        name="net1", macvlan=MacvlanConfig(), addresses=("10.5.0.50/24",), hardware_addr=mac
    )
    with rails(1) as host:
        host.ip(f"link set nic0 address {mac}")

        with pytest.raises(AttachError, match=r"has that address; change interface\.hardwareAddr"):
            host.attach("nic0", config=NetworkConfig(child))


def test_parameters_accepted_by_validation_are_accepted_by_the_kernel() -> None:
    config = parse_network_config(
        {
            "interface": {
                "hardwareAddr": "02005e100001",
                "addresses": [
                    *("10.9.0.1/24", "10.9.0.1/16", "224.0.0.1/24"),
                    *("fe80::77/64", "2001:db8::5/64", "2001:db8:1::/64"),
                ],
            },
            "routes": [
                {"destination": "10.76.0.0/024", "gateway": "0.0.0.0", "scope": 253},
                {"destination": "10.77.0.0/24", "gateway": "::ffff:10.9.0.9"},
                {"destination": "2001:db8:77::/64", "gateway": "2001:db8::9", "source": "::"},
                {"destination": "ff05::/16", "scope": 253},
            ],
            "neighbors": [{"destination": "::ffff:10.9.0.9", "hardwareAddr": "02-00-00-00-00-09"}],
        }
    )

    with rails(1) as host:
        record = host.attach("nic0", config=config)

        assert record.phase is Phase.ATTACHED
        assert any("10.76.0.0/24" in line for line in host.shown("route", pod=0))
        assert host.detach(record).phase is Phase.RESTORED
