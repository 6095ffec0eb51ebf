"""URLs in selectors, as the API server evaluates them."""

import pytest

from dra_shim.cel import SelectorError, compile_selector
from tests.dra_shim.scheduling.nic_slice_device import NIC


@pytest.mark.parametrize(
    "expression",
    [
        "url('HTTPS://u:p@Example.com:8443/a?x=1#f').getScheme() == 'https'",
        "url('https://u:p@example.com:8443/a').getHost() == 'example.com:8443'",
        "url('https://[2001:db8::1]:80/').getHostname() == '2001:db8::1'",
        "url('https://example.com/').getPort() == ''",
        "url('https://example.com:80').getPort() == '80'",
        "url('https://example.com').getEscapedPath() == ''",
        "url('https://example.com/with space/%41').getEscapedPath() == '/with%20space/A'",
        "url('https://example.com/a%20b').getEscapedPath() == '/a%20b'",
        "url('https://example.com/?k=a&k=b&c').getQuery()['k'] == ['a', 'b']",
        "url('/only/a/path').getHost() == ''",
        "url('http://a') == url('http://a') && url('http://a') != url('http://b')",
        "isURL('mailto:a@example.com') && isURL('/') && isURL('http://[::1]')",
        "!isURL('') && !isURL('example.com') && !isURL('../x') && !isURL('://x')",
        "!isURL('http://a:b') && !isURL('http://a b') && !isURL('http://a/%4') && !isURL('http://\\n')",
    ],
)
def test_url_is_evaluated(expression: str) -> None:
    assert compile_selector(expression).matches(NIC)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("url('a b').getHost() == ''", '"a b" is not a URL such as https://example.com/x'),
        ("ip('10.0.0.1').getHost() == ''", "the value is not of type url"),
    ],
)
def test_invalid_url_fails(expression: str, reason: str) -> None:
    with pytest.raises(SelectorError, match=reason):
        compile_selector(expression).matches(NIC)
