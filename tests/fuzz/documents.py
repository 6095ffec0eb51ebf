"""Targets of the documents: parameters and manifests of users, records of another process."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from dra_shim.resourceapi import parse_manifests
from dra_shim.resourceapi.allocated_claim import AllocatedClaim, read_allocated
from dra_shim.resourceapi.pod import has_ended, read_pod_use
from dranet_nri.config import (
    ConfigEntry,
    ConfigSource,
    load_json,
    network_config_to_json,
    parse_network_config,
    select_config,
)
from dranet_nri.errors import ConfigError, StateError
from dranet_nri.model import DRIVER_NAME, ObjectRef
from dranet_nri.state import privileged_facts
from dranet_nri.state.record import (
    MAX_ALLOCATION,
    MAX_RECORD,
    decode_allocation,
    decode_attachment,
    encode_allocation,
    encode_attachment,
    salvage_devices,
    salvage_pod_uid,
)
from tests.fuzz.target import TOKENS, Target, assert_readable, text_of

_MOST_EDITS = 32  # bytes, two an edit
_SERVED = Path(__file__).with_name("corpus") / "objects"
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1.5, 10**400, float("nan"), "", " ", "x", "a/b/c"),
    *("\ud800", "\0\n"),
    *("dra.net", "pods", "web-nics", "nics", "FromClaim", "5e0f", "1Ki", "1e999", "x" * 300),
    *([], {}, [None], [[]], [{}], ["nics", 1], {"": None}, {"name": "nics"}),
    {"driver": "dra.net"},
    *({"dra.net/bandwidth": "9" * 40}, [{"name": "nics"}, {"name": "nics"}]),
)


def configure(data: bytes) -> None:
    """Any text is a configuration that survives writing and merging, or a readable ConfigError."""
    text = text_of(data)
    try:
        config = parse_network_config(text)
    except ConfigError as error:
        assert_readable(error.violations)
        return
    assert parse_network_config(network_config_to_json(config)) == config
    document = load_json(text)
    assert isinstance(document, Mapping)
    entries = [
        ConfigEntry(source, DRIVER_NAME, document)
        for source in (ConfigSource.CLASS, ConfigSource.CLAIM)
    ]
    assert select_config(entries, "nic") == config


def read_manifests(data: bytes) -> None:
    """Any text is claims, classes and other objects, or a readable ConfigError."""
    try:
        parse_manifests(text_of(data))
    except ConfigError as error:
        assert_readable(error.violations)


def read_objects(data: bytes) -> None:
    """Any object of a server is a claim and a pod's use of one, or a readable ConfigError."""
    claim = AllocatedClaim(ObjectRef("default", "web-nics", "uid"), pod_claim_name="nics")
    for document in _objects(data):
        for read in (
            read_allocated,
            partial(read_pod_use, claim=claim),
            partial(has_ended, uid="u-1"),
        ):
            try:
                read(document)
            except ConfigError as error:
                assert_readable(error.violations)


def _objects(data: bytes) -> Iterator[dict[str, object]]:
    """Yield the object in the text; or the given one, with a value replaced for each edit in it.

    Most edits of a text leave none that is JSON. So what is none is read as pairs of bytes: which
    of an object's values, and what it becomes.
    """
    try:
        document = json.loads(text_of(data))
    except (ValueError, RecursionError):
        for name in ("claim.json", "pod.json"):
            made = json.loads(_SERVED.joinpath(name).read_text())
            edits = data[:_MOST_EDITS]
            for slot, value in zip(edits[::2], edits[1::2], strict=False):
                slots = list(_slots(made))
                holder, key = slots[slot % len(slots)]
                holder[key] = deepcopy(_VALUES[value % len(_VALUES)])
            yield made
    else:
        if isinstance(document, dict):
            yield document


def _slots(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield (container, key) of every value inside a document."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _slots(value[key])


def read_record(data: bytes) -> None:
    """Any bytes are a record that is written and read back unchanged, or a readable StateError."""
    salvage_pod_uid(data)
    salvage_devices(data)
    with suppress(StateError):
        programs = privileged_facts.decoded(data)
        assert privileged_facts.decoded(privileged_facts.encoded(programs)) == programs
    with suppress(StateError):
        allocation = decode_allocation(data)
        written = encode_allocation(allocation)
        assert len(written) <= MAX_ALLOCATION
        assert decode_allocation(written) == allocation
    try:
        attachment = decode_attachment(data)
    except StateError as error:
        assert_readable([str(error)])
        return
    written = encode_attachment(attachment)
    assert len(written) <= MAX_RECORD
    assert decode_attachment(written) == attachment


_SCALARS = (
    *(b"null", b"true", b"0", b"-1", b"1.0", b"1e999", b"NaN", b"[]", b"{}", b'""', b'"x"'),
    *(b'"\\ud800"', b'"\\u0000"', b'"\\u00e9"', b"\xed\xa0\x80", b"\xff", b"\0"),
    *(b"18446744073709551616", b"9" * 400, b"[" * 40, b'{"a":' * 40),
)
_FIELDS = (
    *(b'"interface"', b'"name"', b'"addresses"', b'"mtu"', b'"hardwareAddr"', b'"routes"'),
    *(b'"rules"', b'"neighbors"', b'"destination"', b'"gateway"', b'"scope"', b'"table"'),
    *(b'"vrf"', b'"acceptRA"', b'"ethtool"', b'"type"', b'"IPVLAN"', b'"dhcp"', b'"10.0.0.1/24"'),
    *(b'"::1"', b'"::ffff:1.2.3.4"', b'"fe80::1%eth0"', b'"02:00:00:00:00:01"'),
)
_YAML = (
    *(b"- ", b": ", b"? ", b"&a ", b"*a", b"<<: *a\n", b"---\n", b"...\n", b"|\n", b">-\n", b"#"),
    *(b"!!float ", b"!!int ", b"!!bool ", b"!!null ", b"!!str ", b"!!set ", b"!x ", b"!<%FF> "),
    *(b"0x", b"0b", b"0o7", b"1:30", b"+", b"_", b".inf", b".nan", b"2001-01-01", b"yes", b"="),
    *(b"%YAML 1.1\n---\n", b"%TAG ! x:\n---\n", b'"\\U00110000"', b'"\\xff"', b"\t", b"\r", b"'"),
    *(b"kind: List\nitems:\n", b"items", b"[", b"]", b"{", b"}", b"\n", b"  "),
)
_CLAIM = (
    *(b"matchAttribute", b"distinctAttribute", b"firstAvailable", b"exactly", b"adminAccess"),
    *(b"tolerations", b"capacity", b"allocationMode", b"All", b"count", b"opaque", b"cel"),
    *(b"ResourceSlice", b"sharedCounters", b"requestPolicy", b"validRange", b"taints", b"10Gi"),
    *(b"resource.k8s.io/v1beta1", b"DeviceClass", b"ResourceClaimTemplate", b"generateName"),
)
_OBJECT = (
    *(b'"metadata"', b'"status"', b'"allocation"', b'"devices"', b'"results"', b'"driver"'),
    *(b'"dra.net"', b'"pool"', b'"device"', b'"request"', b'"shareID"', b'"consumedCapacity"'),
    *(b'"reservedFor"', b'"config"', b'"source"', b'"FromClaim"', b'"opaque"', b'"parameters"'),
    *(b'"spec"', b'"containers"', b'"resources"', b'"claims"', b'"name"', b'"web-nics"'),
    *(b'"resourceClaims"', b'"resourceClaimName"', b'"resourceClaimTemplateName"', b'"nics"'),
    *(b'"extendedResourceClaimStatus"', b'"requestMappings"', b'"requestName"', b'"hostNetwork"'),
)

TARGETS = {
    "config": Target(configure, (*_SCALARS, *_FIELDS), TOKENS),
    "claims": Target(read_manifests, (*_SCALARS, *_FIELDS, *_YAML, *_CLAIM), TOKENS),
    "objects": Target(read_objects, (*_SCALARS, *_OBJECT), TOKENS),
    "records": Target(
        read_record,
        (
            *_SCALARS,
            b'"version"',
            b'"kind"',
            b'"Allocation"',
            b'"uid"',
            b'"devices"',
            b'"pod"',
            b'"tcx"',
        ),
        TOKENS,
    ),
}
