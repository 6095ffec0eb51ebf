"""Records of any shape that the rules allow, made from the model's own annotations."""

from dataclasses import fields, is_dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from dranet_nri.model import (
    Address,
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    AttributeValue,
    CharDevice,
    Consumed,
    ContainerClaim,
    Device,
    DeviceKey,
    DriverSetting,
    EthtoolState,
    InterfaceConfig,
    Lease,
    Link,
    LinkState,
    Neighbour,
    NeighbourConfig,
    NetnsId,
    NextHop,
    ObjectRef,
    RdmaConfig,
    RdmaLink,
    Route,
    RouteConfig,
    RssConfig,
    RssState,
    Rule,
    RuleConfig,
    Switches,
    Sysctl,
    Version,
    VlanConfig,
    VrfConfig,
)

Strategy = st.SearchStrategy

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
NUMBER = st.integers(0, 255)  # the default range of numbers, unless the field has its own
U32 = st.integers(0, (1 << 32) - 1)
TOKEN = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
LABEL = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,10}[a-z0-9])?", fullmatch=True)
CAPACITY = st.from_regex(r"([a-z0-9][-.a-z0-9]{0,9}/)?[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True)
IFNAME = st.from_regex(r"(net|é)[A-Za-z0-9_.@-]{0,11}", fullmatch=True)
PCI = st.from_regex(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", fullmatch=True)
MAC = st.from_regex(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", fullmatch=True)
GUID = st.from_regex(r"[0-9a-f]{4}(:[0-9a-f]{4}){3}", fullmatch=True)
SWITCH = st.from_regex(r"[a-z][a-z0-9 _-]{0,30}", fullmatch=True)
HEX = st.binary(max_size=12).map(bytes.hex)
IP = st.ip_addresses().filter(lambda ip: ip.version == 4 or ip.scope_id is None).map(str)
CIDR = st.builds(lambda ip, bits: f"{ip}/{bits}", IP, st.integers(0, 32))


def _or_empty(strategy: Strategy[str]) -> Strategy[str]:
    return st.just("") | strategy


ATTRIBUTE = st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | TEXT | st.builds(Version, TEXT)
ATTRIBUTES = st.dictionaries(TEXT, ATTRIBUTE, max_size=4).map(lambda d: tuple(sorted(d.items())))

# The value of one field, or of its items where the field is optional or a tuple.
_FIELDS: dict[type, dict[str, Strategy[object]]] = {
    ObjectRef: {"namespace": TOKEN, "name": TOKEN, "uid": TOKEN},
    DeviceKey: {
        "bus": _or_empty(TOKEN),
        "parent": TOKEN,
        "name": _or_empty(IFNAME),
        "pci": _or_empty(PCI),
    },
    Device: {"name": LABEL, "rdma_devices": TOKEN},
    Consumed: {"capacity": CAPACITY, "amount": st.integers(0, (1 << 63) - 1)},
    AllocatedDevice: {
        "request": LABEL,
        "pool": TOKEN,
        "share_id": _or_empty(LABEL),
        "subrequest": _or_empty(LABEL),
    },
    ContainerClaim: {"container": LABEL, "request": _or_empty(LABEL)},
    Allocation: {"nonce": LABEL.filter(str.isalnum), "boot_id": LABEL, "pod_claim_name": LABEL},
    InterfaceConfig: {
        "name": IFNAME,
        "addresses": CIDR,
        "mtu": st.integers(68, 65536),
        "hardware_addr": MAC,
        "gso_max_size": st.integers(1, (1 << 32) - 1),
        "gro_max_size": st.integers(1, 65536),
        "gso_ipv4_max_size": st.integers(1, 65536),
        "gro_ipv4_max_size": st.integers(1, 65536),
        "arp_ignore": st.sampled_from([0, 1, 2, 3, 8]),
        "arp_announce": st.integers(0, 2),
        "altnames": IFNAME,
        "dad_transmits": st.integers(0, 100),
        "accept_ra": st.integers(0, 2),
    },
    VrfConfig: {"name": IFNAME, "table": st.integers(1, (1 << 32) - 1)},
    VlanConfig: {"id": st.integers(1, 4094)},
    RdmaConfig: {"name": TOKEN},
    Switches: {"on": SWITCH, "off": SWITCH},
    EthtoolState: {"active": SWITCH},
    DriverSetting: {"name": st.just("rings.rx"), "value": U32, "maximum": U32},
    RssConfig: {"equal": U32, "weights": U32},
    RssState: {"table": U32, "queues": U32},
    RouteConfig: {
        "destination": CIDR,
        "gateway": _or_empty(IP),
        "source": _or_empty(IP),
        "table": U32,
        "metric": U32,
    },
    RuleConfig: {"source": _or_empty(CIDR), "destination": _or_empty(CIDR), "table": U32},
    NeighbourConfig: {"destination": IP, "hardware_addr": MAC},
    Link: {
        "name": IFNAME,
        "mac": _or_empty(MAC),
        "mtu": U32,
        "bus": _or_empty(TOKEN),
        "parent": _or_empty(TOKEN),
        "perm_mac": _or_empty(MAC),
        "kept": st.none() | HEX,
    },
    LinkState: {"master_name": _or_empty(IFNAME)},
    Address: {
        "cidr": CIDR,
        "peer": _or_empty(CIDR),
        "broadcast": _or_empty(IP),
        "valid_s": U32,
        "preferred_s": U32,
    },
    Route: {
        "destination": CIDR,
        "gateway": _or_empty(IP),
        "source": _or_empty(IP),
        "table": U32,
        "metrics": HEX,
        "encap": HEX,
    },
    NextHop: {
        "gateway": _or_empty(IP),
        "weight": st.integers(1, 65536),
        "device": _or_empty(IFNAME),
    },
    Rule: {
        "source": _or_empty(CIDR),
        "destination": _or_empty(CIDR),
        "iif": _or_empty(IFNAME),
        "oif": _or_empty(IFNAME),
    },
    Neighbour: {"destination": IP, "mac": _or_empty(MAC)},
    Sysctl: {"family": st.sampled_from(["ipv4", "ipv6", "mpls"]), "key": st.just("arp_ignore")},
    NetnsId: {
        "path": LABEL.map(lambda name: f"/run/netns/{name}"),
        "inode": st.integers(0, (1 << 64) - 1),
    },
    AttachedDevice: {
        "request": LABEL,
        "pod_name": _or_empty(IFNAME),
        "pod_altnames": IFNAME,
        "mac": _or_empty(MAC),
        "addresses": CIDR,
        "shared_rdma": TOKEN,
        "rdma_name": _or_empty(TOKEN),
        "child": _or_empty(LABEL.map(lambda name: f"dra.net/uid/{name}")),
        "share_id": _or_empty(LABEL),
    },
    Lease: {
        "address": st.ip_addresses(v=4).map(lambda ip: f"{ip}/24"),
        "server": st.ip_addresses(v=4).map(str),
        "server_mac": MAC,
        "since_s": st.integers(0, (1 << 63) - 1),
        "lease_s": st.integers(1, (1 << 32) - 1),
        "renew_s": st.integers(0, (1 << 32) - 1),
        "rebind_s": st.integers(0, (1 << 32) - 1),
    },
    RdmaLink: {"name": TOKEN, "node_guid": _or_empty(GUID)},
    CharDevice: {"path": LABEL.map(lambda name: f"/dev/infiniband/{name}")},
    Attachment: {"sandbox_id": LABEL},
}


def _of(hint: object, item: Strategy[object] | None = None) -> Strategy[object]:
    if hint == tuple[tuple[str, AttributeValue], ...]:
        return ATTRIBUTES
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        return st.lists(_of(arguments[0], item), max_size=2).map(tuple)
    if get_origin(hint) is UnionType and arguments[1] is NoneType:
        return st.none() | _of(arguments[0], item)
    if item is not None:
        return item
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return st.sampled_from(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _built(hint)
    scalars: dict[object, Strategy[object]] = {str: TEXT, int: NUMBER, bool: st.booleans()}
    return scalars[hint]


def _built(kind: type) -> Strategy[object]:
    hints = get_type_hints(kind)
    given = _FIELDS.get(kind, {})
    return st.builds(kind, **{f.name: _of(hints[f.name], given.get(f.name)) for f in fields(kind)})


def _devices_differ(allocation: object) -> bool:
    assert isinstance(allocation, Allocation)
    taken = [
        (item.pool, item.device.name, item.share_id)
        for item in allocation.devices
        if not item.admin_access
    ]
    return len(taken) == len(set(taken))


ALLOCATIONS = _built(Allocation).filter(_devices_differ)
ATTACHMENTS = _built(Attachment)
