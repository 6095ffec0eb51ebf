"""Value rules of records, beyond the types of their fields.

A record is input from another process. These rules refuse, for example, a name that is a path, and
the interface name `all`, which is a directory of sysctls. The *combination* of values is checked
where the claim's parameters are parsed.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from ipaddress import ip_address, ip_interface
from typing import Final

from dranet_nri.errors import InvalidValueError
from dranet_nri.model import (
    MAX_IFNAME,
    Address,
    AllocatedDevice,
    Allocation,
    AttachedDevice,
    Attachment,
    CharDevice,
    Consumed,
    ContainerClaim,
    Device,
    DeviceKey,
    DriverSetting,
    EthtoolState,
    InterfaceConfig,
    IpoibConfig,
    Lease,
    Link,
    LinkState,
    Neighbour,
    NeighbourConfig,
    NetnsId,
    NetworkConfig,
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
    TcxProgram,
    VlanConfig,
    VrfConfig,
    XdpProgram,
    parse_pci_address,
    parse_uid,
)
from dranet_nri.state.json_codec import WHOLE, Rules, kernel_text

MAX_ROUTES: Final = 512  # per NIC, so that a record stays below its size limit
MAX_U32: Final = (1 << 32) - 1
MAX_I64: Final = (1 << 63) - 1  # of a Quantity, k8s.io/apimachinery/pkg/api/resource
PARSED: Final = 1024  # cached valid texts; a claim's records repeat them

# Directories of /proc/sys/net/*/conf/ that apply to every interface, and the loopback.
RESERVED_NAMES: Final = frozenset({"all", "default", "lo"})


def _optional(rule: Callable[[str], None]) -> Callable[[str], None]:
    def check(text: str) -> None:
        if text:
            rule(text)

    return check


def _matches(pattern: str, meaning: str) -> Callable[[str], None]:
    compiled = re.compile(pattern)

    def check(text: str) -> None:
        if not compiled.fullmatch(text):
            raise InvalidValueError(f"{text!r}: must be {meaning}")

    return check


def _parses(parse: Callable[[str], object], meaning: str) -> Callable[[str], None]:
    @lru_cache(PARSED)
    def check(text: str) -> None:
        try:
            parse(text)
        except ValueError:
            raise InvalidValueError(f"{text!r}: must be {meaning}") from None

    return check


def _between(low: int, high: int) -> Callable[[int], None]:
    def check(number: int) -> None:
        if not low <= number <= high:
            raise InvalidValueError(f"{number}: must be {low} to {high}")

    return check


def kernel_name(text: str) -> None:
    """Check an interface name as dev_valid_name does (net/core/dev.c), and that it is printable."""
    bad = any(char in "/:" or char.isspace() or not char.isprintable() for char in text)
    if bad or text in {"", ".", ".."} or len(text.encode()) > MAX_IFNAME:
        raise InvalidValueError(
            f"{text!r}: must be an interface name: 1 to {MAX_IFNAME} bytes without /, : or space"
        )


def own_name(text: str) -> None:
    """Check the name of a device that is renamed or whose sysctls are written."""
    kernel_name(text)
    if text in RESERVED_NAMES:
        raise InvalidValueError(f"{text!r}: is reserved, not the name of a device")


def _prefix(text: str) -> None:
    _cidr_form(text)
    _interface(text)


def _ip(text: str) -> None:
    _ip_form(text)
    _address(text)


def _absolute(text: str) -> None:
    if not text.startswith("/") or ".." in text.split("/"):
        raise InvalidValueError(f"{text!r}: must be an absolute path without ..")


def _pci(text: str) -> None:
    if parse_pci_address(text) != text:
        raise InvalidValueError(f"{text!r}: must be lower case")


def _require_device_key(key: DeviceKey) -> None:
    if not (key.parent or key.name):
        raise InvalidValueError("has neither parent nor interface name; it could be any device")


def _check_route_count(state: NetworkConfig | LinkState) -> None:
    if len(state.routes) > MAX_ROUTES:
        raise InvalidValueError(
            f"routes: {len(state.routes)} routes, at most {MAX_ROUTES} per NIC; "
            "aggregate them or let a routing daemon in the pod install them"
        )


def _require_claim_name(allocation: Allocation) -> None:
    if not (allocation.claim.namespace and allocation.claim.name):
        raise InvalidValueError("claim: namespace and name must not be empty")


def _require_unique_devices(allocation: Allocation) -> None:
    places: set[tuple[str, str, str]] = set()
    for item in allocation.devices:
        where = (item.pool, item.device.name, item.share_id)
        if item.admin_access:
            continue
        if where in places:
            raise InvalidValueError(f"devices: {item.device.name} is repeated")
        places.add(where)


def _check_allocation(allocation: Allocation) -> None:
    _require_claim_name(allocation)
    _require_unique_devices(allocation)


def _check_ipv4(lease: Lease) -> None:
    if ":" in lease.address or ":" in lease.server:
        raise InvalidValueError("address and server of a lease must be IPv4")


_interface = _parses(ip_interface, "an address with a prefix length")
_cidr_form = _matches(r"[0-9A-Fa-f:.]+/[0-9]{1,3}", "an IP prefix like 10.0.0.0/24, without a zone")
_ip_form = _matches(r"[0-9A-Fa-f:.]+", "an IP address without a zone")
_address = _parses(ip_address, "an IP address")
_mac = _matches(
    r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){0,31}", "a link-layer address like 02:00:00:00:00:01"
)
_label = _matches(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", "a DNS label")
_token = _matches(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}", "1 to 253 of letters, digits, . _ -")
_pool = _matches(r"[A-Za-z0-9][A-Za-z0-9./_-]{0,252}", "a pool name")
_capacity = _matches(
    r"([a-z0-9][-.a-z0-9]{0,62}/)?[A-Za-z_][A-Za-z0-9_]{0,31}",
    "a capacity name like dra.net/bandwidth",
)
_sysfs_name = _matches(r"[A-Za-z0-9_][!-.0-~]{0,63}", "1 to 64 printable characters without /")
_nonce = _matches(r"[A-Za-z0-9]{1,64}", "1 to 64 letters and digits")
_hex_id = _matches(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", "an id of letters, digits, _ -")
_family = _matches(r"ipv4|ipv6|mpls", "ipv4, ipv6 or mpls")
_sysctl_key = _matches(r"[a-z0-9_]{1,64}", "a sysctl of one interface")
_alias = _matches(r"dra\.net/[A-Za-z0-9./_-]{1,200}", "an alias of the plugin")
_guid = _matches(r"[0-9a-f]{4}(:[0-9a-f]{4}){3}", "a GUID like 0c42:a103:0065:5a1e")
_switch = _matches(r"[ -~]{1,31}", "a name as ethtool shows it")
_setting = _matches(r"[a-z]{1,16}\.[A-Za-z]{1,32}", "a driver setting like rings.rx")
_hex = _matches(r"([0-9a-f]{2}){0,1024}", "bytes in hex")
_size = _between(1, MAX_U32)
_u32 = _between(0, MAX_U32)
_u8 = _between(0, 255)
_ROUTE: Final[dict[str, Callable[..., object]]] = {
    "destination": _prefix,
    "gateway": _optional(_ip),
    "source": _optional(_ip),
    "scope": _u8,
    "table": _u32,
    "metric": _u32,
}

RULES: Final[Rules] = {
    ObjectRef: {
        "namespace": _optional(_token),
        "name": _optional(_token),
        "uid": parse_uid,
    },
    DeviceKey: {
        "bus": _optional(_sysfs_name),
        "parent": _optional(_sysfs_name),
        "name": _optional(own_name),
        "pci": _optional(_pci),
        "port": _u32,
        WHOLE: _require_device_key,
    },
    Device: {"name": _label, "rdma_devices": _sysfs_name},
    Consumed: {"capacity": _capacity, "amount": _between(0, MAX_I64)},
    AllocatedDevice: {
        "request": _label,
        "pool": _pool,
        "share_id": _optional(_hex_id),
        "subrequest": _optional(_label),
    },
    ContainerClaim: {"container": _token, "request": _optional(_label)},
    Allocation: {
        "nonce": _nonce,
        "boot_id": _optional(_hex_id),
        "pod_claim_name": _optional(_token),
        WHOLE: _check_allocation,
    },
    InterfaceConfig: {
        "name": own_name,
        "addresses": _prefix,
        "mtu": _between(68, MAX_U32),
        "hardware_addr": _mac,
        "gso_max_size": _size,
        "gro_max_size": _size,
        "gso_ipv4_max_size": _size,
        "gro_ipv4_max_size": _size,
        "arp_ignore": _between(0, 8),
        "arp_announce": _between(0, 2),
        "tx_queue_len": _between(0, MAX_U32),
        "altnames": own_name,
        "dad_transmits": _between(0, 100),
        "accept_ra": _between(0, 2),
        "router_solicitations": _between(-1, MAX_U32),
        "router_solicitation_delay": _between(0, 86400),
        "router_solicitation_interval": _between(0, 86400),
        "router_solicitation_max_interval": _between(0, 86400),
    },
    VrfConfig: {"name": own_name, "table": _between(1, MAX_U32)},
    VlanConfig: {"id": _between(1, 4094)},
    IpoibConfig: {"pkey": _between(0, 0xFFFF)},
    RdmaConfig: {"name": _sysfs_name},
    RouteConfig: _ROUTE,
    RuleConfig: {
        "priority": _between(0, 32767),
        "source": _optional(_prefix),
        "destination": _optional(_prefix),
        "table": _u32,
    },
    NeighbourConfig: {"destination": _ip, "hardware_addr": _mac},
    NetworkConfig: {WHOLE: _check_route_count},
    Switches: {"on": _switch, "off": _switch},
    EthtoolState: {"active": _switch},
    DriverSetting: {"name": _setting, "value": _u32, "maximum": _u32},
    RssConfig: {"equal": _u32, "weights": _u32},
    RssState: {"table": _u32, "queues": _u32},
    Link: {
        "index": _u32,
        "name": kernel_name,
        "mac": _optional(_mac),
        "mtu": _u32,
        "txqlen": _u32,
        "master": _u32,
        "lower": _u32,
        "alias": kernel_text,
        "altnames": kernel_text,
        "bus": _optional(_sysfs_name),
        "parent": _optional(_sysfs_name),
        "perm_mac": _optional(_mac),
        "dev_port": _u32,
        "flags": _u32,
        "group": _u32,
        "kept": _hex,
    },
    XdpProgram: {"id": _u32},
    TcxProgram: {"id": _u32, "link": _u32},
    LinkState: {"master_name": _optional(kernel_name), WHOLE: _check_route_count},
    Address: {
        "cidr": _prefix,
        "label": kernel_text,
        "scope": _u8,
        "peer": _optional(_interface),
        "broadcast": _optional(_ip),
        "valid_s": _u32,
        "preferred_s": _u32,
        "flags": _u32,
        "proto": _u8,
        "metric": _u32,
    },
    Route: {
        **_ROUTE,
        "protocol": _u8,
        "type": _u8,
        "mtu": _u32,
        "expires_s": _u32,
        "preference": _u8,
        "tos": _u8,
        "metrics": _hex,
        "realms": _u32,
        "encap": _hex,
    },
    NextHop: {
        "gateway": _optional(_ip),
        "weight": _between(1, 65536),
        "device": _optional(kernel_name),
    },
    Rule: {
        "family": _u8,
        "priority": _u32,
        "source": _optional(_prefix),
        "destination": _optional(_prefix),
        "table": _u32,
        "iif": _optional(kernel_name),
        "oif": _optional(kernel_name),
        "fwmark": _u32,
        "fwmask": _u32,
        "tos": _u8,
        "action": _u8,
        "protocol": _u8,
    },
    Neighbour: {"destination": _ip, "mac": _optional(_mac), "flags": _u8, "protocol": _u8},
    Sysctl: {"family": _family, "key": _sysctl_key},
    NetnsId: {"path": _optional(_absolute)},
    Attachment: {"sandbox_id": _hex_id},
    AttachedDevice: {
        "request": _label,
        "pod_name": _optional(own_name),
        "pod_altnames": own_name,
        "pod_index": _u32,
        "mac": _optional(_mac),
        "mtu": _u32,
        "addresses": _prefix,
        "shared_rdma": _sysfs_name,
        "rdma_name": _optional(_sysfs_name),
        "child": _optional(_alias),
        "share_id": _optional(_hex_id),
    },
    Lease: {
        "address": _prefix,
        "server": _ip,
        "server_mac": _mac,
        "since_s": _between(0, MAX_I64),
        "lease_s": _size,
        "renew_s": _u32,
        "rebind_s": _u32,
        WHOLE: _check_ipv4,
    },
    RdmaLink: {"index": _u32, "name": _sysfs_name, "node_guid": _optional(_guid)},
    CharDevice: {"path": _absolute, "major": _u32, "minor": _u32},
}
