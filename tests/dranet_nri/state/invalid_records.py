"""Bytes that are no allocation record, each with the location in the refusal."""

import json

import pytest

from dranet_nri.state.record import encode_allocation
from tests.dranet_nri.state.examples import ALLOCATION

GOOD = encode_allocation(ALLOCATION)


def with_value(*steps: str | int, value: object) -> bytes:
    """Return the good record with one value replaced or added."""
    record = json.loads(GOOD)
    parent = record
    for step in steps[:-1]:
        parent = parent[step]
    parent[steps[-1]] = value
    return json.dumps(record).encode()


def without(*steps: str | int) -> bytes:
    """Return the good record with one value left out."""
    record = json.loads(GOOD)
    parent = record
    for step in steps[:-1]:
        parent = parent[step]
    del parent[steps[-1]]
    return json.dumps(record).encode()


def with_bytes(old: bytes, new: bytes) -> bytes:
    """Return the good record with some of its bytes replaced."""
    assert old in GOOD
    return GOOD.replace(old, new)


NIC = ("devices", 0)
INTERFACE = (*NIC, "config", "interface")
CONSUMED = (*NIC, "consumed", 0)
ROUTE = (*NIC, "config", "routes", 0)
MANY_ROUTES = [{"destination": f"10.{i >> 8}.{i & 255}.0/24"} for i in range(513)]

_CASES: tuple[tuple[str, bytes, str], ...] = (
    # bytes that are not JSON, or not ours
    ("empty", b"", "$: 0 bytes, not JSON"),
    ("one-nul", b"\0", "$: 1 bytes, not JSON"),
    ("torn-in-half", GOOD[: len(GOOD) // 2], "not JSON"),
    ("torn-by-one", GOOD[:-1], "not JSON"),
    ("two-records", GOOD + GOOD, "not JSON"),
    ("byte-order-mark", b"\xef\xbb\xbf" + GOOD, "not JSON"),
    ("utf-16", GOOD.decode().encode("utf-16"), "not JSON"),
    ("not-utf-8", with_bytes(b"two-nics", b"two-\xff"), "not JSON"),
    ("nan", with_bytes(b'"mtu":9000', b'"mtu":NaN'), "NaN is not a JSON number"),
    ("infinity", with_bytes(b'"mtu":9000', b'"mtu":-Infinity'), "-Infinity is not a JSON number"),
    ("endless-integer", with_bytes(b'"mtu":9000', b'"mtu":' + b"9" * 5000), "not JSON"),
    ("deep-nesting", b"[" * 60000, "not JSON"),
    ("null", b"null", "$: must be an object"),
    ("list", b"[" + GOOD + b"]", "$: must be an object"),
    ("too-long", GOOD + b" " * (64 << 10), "a record has at most 65536"),
    # the envelope
    ("no-version", without("version"), "$.version: must be an integer"),
    ("version-as-text", with_value("version", value="1"), "$.version: must be an integer"),
    ("version-true", with_value("version", value=True), "$.version: must be an integer"),
    ("no-kind", without("kind"), "$.kind: must be 'Allocation'"),
    ("other-kind", with_value("kind", value="Attachment"), "$.kind: must be 'Allocation'"),
    (
        "top-key-twice",
        with_bytes(b'{"version":6,', b'{"version":6,"version":6,'),
        "'version' is repeated",
    ),
    # structure
    ("unknown-field", with_value("hooks", value=[]), "$: unknown field 'hooks'"),
    (
        "unknown-deep",
        with_value(*INTERFACE, "dhcp", value=True),
        "$.devices[0].config.interface: unkn",
    ),
    ("snake-case", with_value("boot_id", value=""), "$: unknown field 'boot_id'"),
    ("field-missing", without("pod"), "$: field 'pod' is missing"),
    ("deep-missing", without("pod", "uid"), "$.pod: field 'uid' is missing"),
    (
        "deep-key-twice",
        with_bytes(b'"request":"nic","pool"', b'"request":"nic","request":"x","pool"'),
        "$.devices[0]: is an object with the key 'request' twice",
    ),
    ("object-for-list", with_value("devices", value={}), "$.devices: is an object, must be a list"),
    ("list-for-object", with_value("pod", value=[]), "$.pod: is a list, must be an object"),
    ("null-for-text", with_value("nonce", value=None), "$.nonce: is null, must be str"),
    ("number-for-text", with_value("nonce", value=7), "$.nonce: is int, must be str"),
    (
        "bool-for-number",
        with_value(*INTERFACE, "mtu", value=True),
        "interface.mtu: is bool, must be int",
    ),
    (
        "float-for-number",
        with_value(*INTERFACE, "mtu", value=9.0),
        "interface.mtu: is float, must be in",
    ),
    (
        "number-for-bool",
        with_value(*NIC, "adminAccess", value=1),
        "adminAccess: is int, must be bool",
    ),
    ("infinite-float", with_bytes(b'"mtu":9000', b'"mtu":1e999'), "interface.mtu: is float"),
    ("beyond-64-bits", with_value(*ROUTE, "table", value=1 << 64), "table: must fit in 64 bits"),
    ("nul-in-text", with_value("pod", "name", value="a\0b"), "$.pod.name: 'a\\x00b': must not con"),
    (
        "lone-surrogate",
        with_value("pod", "name", value="\ud800"),
        "$.pod.name: '\\ud800': must be Un",
    ),
    # amounts
    ("capacity-unnamed", with_value(*CONSUMED, "capacity", value=""), "consumed[0].capacity: ''"),
    (
        "amount-negative",
        with_value(*CONSUMED, "amount", value=-1),
        "consumed[0].amount: -1: must be 0",
    ),
    ("amount-huge", with_value(*CONSUMED, "amount", value=1 << 63), "consumed[0].amount: 92233"),
    # attributes
    (
        "attributes-list",
        with_value(*NIC, "device", "attributes", value=[]),
        "attributes: is a list",
    ),
    (
        "attribute-bare",
        with_value(*NIC, "device", "attributes", value={"a": 1}),
        "attributes.a: is int",
    ),
    (
        "attribute-untagged",
        with_value(*NIC, "device", "attributes", value={"a": {"float": 1}}),
        'attributes.a: must be one of {"bool"}',
    ),
    (
        "attribute-two-tags",
        with_value(*NIC, "device", "attributes", value={"a": {"int": 1, "bool": True}}),
        'attributes.a: must be one of {"bool"}',
    ),
    (
        "attribute-wrong-tag",
        with_value(*NIC, "device", "attributes", value={"a": {"int": True}}),
        "attributes.a: is bool, must be int",
    ),
    (
        "attribute-name-nul",
        with_value(*NIC, "device", "attributes", value={"a\0": {"int": 1}}),
        "attributes: 'a\\x00': must not contain NUL",
    ),
    # names that would become paths
    (
        "claim-uid-path",
        with_value("claim", "uid", value="../../etc/x"),
        "$.claim.uid: uid '../../etc/x'",
    ),
    ("pod-uid-empty", with_value("pod", "uid", value=""), "$.pod.uid: uid ''"),
    ("claim-name-path", with_value("claim", "name", value="a/b"), "$.claim.name: 'a/b'"),
    (
        "claim-unnamed",
        with_value("claim", "name", value=""),
        "claim: namespace and name must not be",
    ),
    ("request-path", with_value(*NIC, "request", value=".."), "$.devices[0].request: '..'"),
    (
        "subrequest-path",
        with_value(*NIC, "subrequest", value="../x"),
        "$.devices[0].subrequest: '../x'",
    ),
    ("nonce-path", with_value("nonce", value="../x"), "$.nonce: '../x'"),
    ("pool-traversal", with_value(*NIC, "pool", value="../node"), "$.devices[0].pool: '../node'"),
    (
        "rdma-path",
        with_value(*NIC, "device", "rdmaDevices", value=["mlx5_0", "../x"]),
        "rdmaDevices[1]",
    ),
    (
        "parent-path",
        with_value(*NIC, "device", "key", "parent", value="../x"),
        "device.key.parent: '../",
    ),
    ("pci-form", with_value(*NIC, "device", "key", "pci", value="8a:00.0"), "key.pci: PCI address"),
    (
        "pci-case",
        with_value(*NIC, "device", "key", "pci", value="0000:8A:00.0"),
        "must be lower case",
    ),
    (
        "no-device",
        with_value(*NIC, "device", "key", value={"bus": "", "parent": "", "name": ""}),
        "any",
    ),
    # interface names
    (
        "host-name-all",
        with_value(*NIC, "device", "key", "name", value="all"),
        "key.name: 'all': is res",
    ),
    (
        "host-name-lo",
        with_value(*NIC, "device", "key", "name", value="lo"),
        "key.name: 'lo': is reserved",
    ),
    ("name-reserved", with_value(*INTERFACE, "name", value="default"), "interface.name: 'default'"),
    (
        "name-path",
        with_value(*INTERFACE, "name", value="a/b"),
        "interface.name: 'a/b': must be an inter",
    ),
    ("name-dots", with_value(*INTERFACE, "name", value=".."), "interface.name: '..'"),
    ("name-empty", with_value(*INTERFACE, "name", value=""), "interface.name: ''"),
    ("name-16-bytes", with_value(*INTERFACE, "name", value="e" * 16), "interface.name: 'eeee"),
    ("name-16-utf8", with_value(*INTERFACE, "name", value="é" * 8), "interface.name: 'éé"),
    ("name-space", with_value(*INTERFACE, "name", value="a b"), "interface.name: 'a b'"),
    ("name-control", with_value(*INTERFACE, "name", value="a\x1b"), "interface.name: 'a\\x1b'"),
    # addresses and numbers
    (
        "address-bare",
        with_value(*INTERFACE, "addresses", value=["10.0.0.1"]),
        "addresses[0]: '10.0.0.1'",
    ),
    (
        "address-mask",
        with_value(*INTERFACE, "addresses", value=["10.0.0.1/255.0.0.0"]),
        "addresses[0]",
    ),
    (
        "address-zone",
        with_value(*INTERFACE, "addresses", value=["fe80::1%eth0/64"]),
        "addresses[0]",
    ),
    (
        "prefix-33",
        with_value(*INTERFACE, "addresses", value=["10.0.0.1/33"]),
        "addresses[0]: '10.0.0.1/3",
    ),
    ("mtu-67", with_value(*INTERFACE, "mtu", value=67), "interface.mtu: 67: must be 68 to"),
    ("mtu-33-bits", with_value(*INTERFACE, "mtu", value=1 << 32), "interface.mtu: 4294967296"),
    (
        "mac-short",
        with_value(*INTERFACE, "hardwareAddr", value="02:0"),
        "interface.hardwareAddr: '02:0'",
    ),
    (
        "gateway-zone",
        with_value(*ROUTE, "gateway", value="fe80::1%1"),
        "routes[0].gateway: 'fe80::1%1'",
    ),
    ("gateway-text", with_value(*ROUTE, "gateway", value="1.2.3"), "routes[0].gateway: '1.2.3'"),
    (
        "513-routes",
        with_value(*NIC, "config", "routes", value=MANY_ROUTES),
        "513 routes, at most 512",
    ),
    (
        "device-twice",
        with_value("devices", value=[json.loads(GOOD)["devices"][0]] * 2),
        "devices: pci-0000-8a-00-2 is repeated",
    ),
)

BROKEN = [pytest.param(data, text, id=name) for name, data, text in _CASES]
BROKEN_BYTES = [pytest.param(data, id=name) for name, data, _ in _CASES]
