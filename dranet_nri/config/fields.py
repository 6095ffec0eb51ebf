"""Fields of a NetworkConfig and the values that each accepts.

The parser accepts no other fields. `hack/gen-reference` writes the tables of
manifests/docs/configuration.md from this module, so the texts are Markdown.
"""

from collections.abc import Mapping
from typing import Final

INTERFACE_FIELDS: Final[Mapping[str, str]] = {
    "name": "name in the pod; default: the name on the host",
    "addresses": "a list, see below; default: the addresses on the host",
    "addressing": "`Static` (default), `DHCP`, `SLAAC`; `Unnumbered`: a child without addresses",
    "mtu": "68 or more; 1280 or more with IPv6 addresses",
    "hardwareAddr": "a unicast MAC of the device's length",
    "gsoMaxSize": "bytes, 1 to 524280 (BIG TCP)",
    "groMaxSize": "bytes, 1 to 524280 (BIG TCP)",
    "gsoIPv4MaxSize": "the same for IPv4",
    "groIPv4MaxSize": "the same for IPv4",
    "arpIgnore": "0, 1, 2, 3 or 8",
    "arpAnnounce": "0, 1 or 2",
    "forwarding": "`true` or `false`",
    "disableEbpfPrograms": "`true`: detach the tc and TCX programs of the host in the pod",
    "txQueueLen": "packets",
    "altnames": "a list of alternative names",
    "disableIPv6": "`true` or `false`",
    "addrGenMode": "`eui64`, `none`, `random`, or 0, 1, 3: how IPv6 link-local addresses are made",
    "dadTransmits": "0 to 100; 0: no duplicate address detection",
    "acceptRA": "0, 1, or 2 (also with forwarding); needs an MTU of 1280 or more",
    "routerSolicitations": "number; -1: unlimited",
    "routerSolicitationDelay": "seconds",
    "routerSolicitationInterval": "seconds",
    "routerSolicitationMaxInterval": "seconds",
    "vrf": "VRF in the pod for all routes; created if missing; not with `rules`",
    "type": "`Passthrough` (default), `IPVLAN`, `MACVLAN`, `VLAN` or `IPoIB`",
    "ipoib": "with `type: IPoIB`",
    "ipvlan": "with `type: IPVLAN`",
    "macvlan": "with `type: MACVLAN`",
    "vlan": "with `type: VLAN`",
}
IPOIB_FIELDS: Final[Mapping[str, str]] = {
    "pkey": '`"0x8001"`, a number, or `tenant`',
    "mode": "`datagram` (default) or `connected`",
}
IPVLAN_FIELDS: Final[Mapping[str, str]] = {
    "mode": "`L2` (default), `L3` or `L3S`",
    "flag": "`Bridge` (default), `Private` or `VEPA`",
}
MACVLAN_FIELDS: Final[Mapping[str, str]] = {"mode": "`Bridge` (default), `Private` or `VEPA`"}
VLAN_FIELDS: Final[Mapping[str, str]] = {
    "id": "required; 1 to 4094",
    "protocol": "`802.1Q` (default) or `802.1ad`",
}
VRF_FIELDS: Final[Mapping[str, str]] = {
    "name": "required",
    "table": "number of its table; default: derived from its name, as in dranet",
}
ROUTE_FIELDS: Final[Mapping[str, str]] = {
    "destination": "required; a network",
    "gateway": "required, unless `scope` is 253",
    "source": "an address of the NIC",
    "scope": "0 (default), or 253: reached without a gateway",
    "table": "number of the table; default: main",
    "metric": "0 (default): chosen by the kernel (IPv6: 1024); raised if another route has it",
}
RULE_FIELDS: Final[Mapping[str, str]] = {
    "priority": "0 to 32767",
    "source": "a network, of the same family as `destination`",
    "destination": "a network, of the same family as `source`",
    "table": "number of the table",
}
NEIGHBOUR_FIELDS: Final[Mapping[str, str]] = {
    "destination": "required; an address",
    "hardwareAddr": "required; a MAC of the device's length",
}
ETHTOOL_FIELDS: Final[Mapping[str, str]] = {
    "features": "names as in `ethtool -k`, each with `true` or `false`",
    "privateFlags": "names as in `ethtool --show-priv-flags`, each with `true` or `false`",
    "rings": "`ethtool -G`",
    "channels": "`ethtool -L`",
    "coalesce": "`ethtool -C`",
    "pause": "`ethtool -A`",
    "rss": "`ethtool -X`; the hash key stays",
}
RINGS_FIELDS: Final[Mapping[str, str]] = {
    "rx": "descriptors, 1 or more",
    "rxMini": "the same",
    "rxJumbo": "the same",
    "tx": "the same",
}
CHANNELS_FIELDS: Final[Mapping[str, str]] = {
    "rx": "queues",
    "tx": "queues",
    "other": "queues",
    "combined": "queues that receive and transmit",
}
COALESCE_FIELDS: Final[Mapping[str, str]] = {
    "rxUsecs": "microseconds",
    "rxFrames": "packets",
    "rxUsecsIrq": "microseconds",
    "rxFramesIrq": "packets",
    "txUsecs": "microseconds",
    "txFrames": "packets",
    "txUsecsIrq": "microseconds",
    "txFramesIrq": "packets",
    "adaptiveRx": "`true` or `false`",
    "adaptiveTx": "`true` or `false`",
}
PAUSE_FIELDS: Final[Mapping[str, str]] = {
    "autoneg": "`true` or `false`",
    "rx": "`true` or `false`",
    "tx": "`true` or `false`",
}
RSS_FIELDS: Final[Mapping[str, str]] = {
    "equal": "number of receive queues with equal shares",
    "weights": "a list: the share of each receive queue; in place of `equal`",
}
RDMA_FIELDS: Final[Mapping[str, str]] = {
    "charDevices": "a list of `uverbs`, `rdma_cm`, `umad`, `issm`; default: `--rdma-char-devices`",
    "name": "name of the RDMA device in the pod (exclusive mode)",
}
POLICY_FIELDS: Final[Mapping[str, str]] = {
    "name": "required; shown in the error of a claim",
    "fields": "a list of fields that claims may set, such as `interface.mtu`; default: all",
    "addresses": "a list of networks in which `interface.addresses` must lie; default: all",
    "hardwareAddrs": "a list of first bytes for `interface.hardwareAddr`, such as `02:42`",
}
TOP_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "interface": INTERFACE_FIELDS,
    "routes": ROUTE_FIELDS,
    "rules": RULE_FIELDS,
    "neighbors": NEIGHBOUR_FIELDS,
    "rdma": RDMA_FIELDS,
    "ethtool": ETHTOOL_FIELDS,
}
BLOCK_FIELDS: Final[Mapping[str, Mapping[str, str]]] = {
    "channels": CHANNELS_FIELDS,
    "coalesce": COALESCE_FIELDS,
    "pause": PAUSE_FIELDS,
    "rings": RINGS_FIELDS,
    "rss": RSS_FIELDS,
    "ipoib": IPOIB_FIELDS,
    "ipvlan": IPVLAN_FIELDS,
    "macvlan": MACVLAN_FIELDS,
    "vlan": VLAN_FIELDS,
    "vrf": VRF_FIELDS,
}
