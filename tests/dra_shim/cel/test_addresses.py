"""IP addresses and networks in selectors, as in Kubernetes (k8s.io/apiserver/pkg/cel/library)."""

import pytest

from dra_shim.cel import SelectorError, compile_selector
from tests.dra_shim.scheduling.nic_slice_device import NIC

TRUE = (
    'isIP("10.0.0.1") && isIP("2001:db8::1")',
    '!isIP("10.0.0.01") && !isIP("10.0.0.1/8") && !isIP("fe80::1%eth0")',
    '!isIP("::ffff:10.0.0.1") && !isIP("")',
    'isCIDR("10.0.0.1/8") && isCIDR("::/0")',
    '!isCIDR("10.0.0.0") && !isCIDR("10.0.0.0/33") && !isCIDR("10.0.0.0/08") && !isCIDR("::/")',
    'ip("10.0.0.1").family() == 4 && ip("::1").family() == 6',
    'ip("2001:DB8::1") == ip("2001:db8:0::1") && ip("10.0.0.1") != ip("10.0.0.2")',
    'ip.isCanonical("2001:db8::1") && !ip.isCanonical("2001:DB8::1")',
    'ip("0.0.0.0").isUnspecified() && !ip("::1").isUnspecified()',
    'ip("127.0.0.9").isLoopback() && ip("::1").isLoopback() && !ip("10.0.0.1").isLoopback()',
    'ip("224.0.0.5").isLinkLocalMulticast() && !ip("224.0.1.5").isLinkLocalMulticast()',
    'ip("ff02::1").isLinkLocalMulticast() && !ip("ff05::1").isLinkLocalMulticast()',
    '!ip("2002::1").isLinkLocalMulticast()',
    'ip("169.254.0.1").isLinkLocalUnicast() && ip("fe80::1").isLinkLocalUnicast()',
    'ip("10.0.0.1").isGlobalUnicast() && ip("fd00::1").isGlobalUnicast()',
    '!["255.255.255.255", "0.0.0.0", "127.0.0.1", "fe80::1", "224.0.0.1"]'
    ".exists(text, ip(text).isGlobalUnicast())",
    'cidr("10.1.2.3/8").ip() == ip("10.1.2.3") && cidr("10.1.2.3/8").prefixLength() == 8',
    'cidr("10.1.2.3/8").masked() == cidr("10.0.0.0/8") && cidr("10.1.2.3/8") != cidr("10.0.0.0/8")',
    'cidr("10.0.0.0/8").containsIP("10.1.2.3") && cidr("10.0.0.0/8").containsIP(ip("10.9.9.9"))',
    '!cidr("10.0.0.0/8").containsIP("11.0.0.1") && !cidr("10.0.0.0/8").containsIP("2001:db8::1")',
    'cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16") && cidr("::/0").containsCIDR(cidr("::1/128"))',
    '!cidr("10.0.0.0/8").containsCIDR("10.0.0.0/7") && !cidr("10.0.0.0/8").containsCIDR("::/96")',
    'device.attributes["dra.net"].?ipv4.orValue("192.0.2.5/24,10.1.0.5/24").split(",")'
    '.exists(text, cidr("10.0.0.0/8").containsIP(cidr(text).ip()))',
)


@pytest.mark.parametrize("expression", TRUE)
def test_addresses_are_compared_as_in_kubernetes(expression: str) -> None:
    assert compile_selector(expression).matches(NIC)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ('ip("10.0.0.256").family() == 4', "does not appear to be an IPv4 or IPv6 address"),
        ('ip("fe80::1%eth0").family() == 6', "is not an address such as 10.0.0.1"),
        ('cidr("10.0.0.0/x").prefixLength() == 8', "is not a network such as 10.0.0.0/8"),
        ('cidr("10.0.0.0/8").family() == 4', "the value is not of type ip"),
        ('quantity("1").prefixLength() == 1', "the value is not of type cidr"),
    ],
)
def test_other_text_fails_on_the_device(expression: str, reason: str) -> None:
    with pytest.raises(SelectorError, match=reason):
        compile_selector(expression).matches(NIC)
