"""Encoder of NetworkConfig as the JSON of claims: canonical, without absent fields."""

import json
from collections.abc import Iterator

from dranet_nri.config.child import child_to_object
from dranet_nri.config.ethtool import ETHTOOL, ethtool_to_object
from dranet_nri.config.rdma import IPOIB, pkey_word
from dranet_nri.model import (
    ChildConfig,
    InterfaceConfig,
    IpoibConfig,
    IpoibMode,
    NeighbourConfig,
    NetworkConfig,
    RdmaConfig,
    RouteConfig,
    RuleConfig,
)


def network_config_to_object(config: NetworkConfig) -> dict[str, object]:
    """Return the configuration as a JSON object, from which `parse_network_config` restores it."""
    lists: dict[str, list[dict[str, object]]] = {
        "routes": [_route(route) for route in config.routes],
        "rules": [_rule(rule) for rule in config.rules],
        "neighbors": [_neighbour(entry) for entry in config.neighbors],
    }
    interface = dict(interface_fields(config.interface))
    ethtool = ethtool_to_object(config.ethtool)
    blocks = _given({"profile": config.profile, "interface": interface})
    blocks |= _given({"rdma": _rdma(config.rdma), ETHTOOL: ethtool})
    return blocks | {name: entries for name, entries in lists.items() if entries}


def network_config_to_json(config: NetworkConfig) -> str:
    """Return the configuration as compact JSON text."""
    document = network_config_to_object(config)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def interface_fields(interface: InterfaceConfig) -> Iterator[tuple[str, object]]:
    """Yield the (field, JSON value) pairs of `interface` that are set."""
    addresses, vrf = interface.addresses, interface.vrf
    pairs: tuple[tuple[str, object], ...] = (
        ("name", interface.name),
        ("addresses", None if addresses is None else list(addresses)),
        ("addressing", interface.addressing and str(interface.addressing)),
        ("mtu", interface.mtu),
        ("hardwareAddr", interface.hardware_addr),
        ("gsoMaxSize", interface.gso_max_size),
        ("groMaxSize", interface.gro_max_size),
        ("gsoIPv4MaxSize", interface.gso_ipv4_max_size),
        ("groIPv4MaxSize", interface.gro_ipv4_max_size),
        ("arpIgnore", interface.arp_ignore),
        ("arpAnnounce", interface.arp_announce),
        ("forwarding", interface.forwarding),
        ("disableEbpfPrograms", interface.disable_ebpf),
        ("txQueueLen", interface.tx_queue_len),
        ("altnames", None if interface.altnames is None else list(interface.altnames)),
        ("disableIPv6", interface.disable_ipv6),
        ("addrGenMode", interface.addr_gen_mode and str(interface.addr_gen_mode)),
        ("dadTransmits", interface.dad_transmits),
        ("acceptRA", interface.accept_ra),
        ("routerSolicitations", interface.router_solicitations),
        ("routerSolicitationDelay", interface.router_solicitation_delay),
        ("routerSolicitationInterval", interface.router_solicitation_interval),
        ("routerSolicitationMaxInterval", interface.router_solicitation_max_interval),
        ("vrf", vrf and {"name": vrf.name, "table": vrf.table}),
        *_child(interface.child),
    )
    return ((key, value) for key, value in pairs if value is not None)


def _child(child: ChildConfig | None) -> tuple[tuple[str, object], ...]:
    if child is None:
        return ()
    if not isinstance(child, IpoibConfig):
        return tuple(child_to_object(child).items())
    pkey = "" if child.pkey is None else pkey_word(child.pkey)
    mode = "" if child.mode is IpoibMode.DATAGRAM else str(child.mode)
    return ("type", IPOIB), ("ipoib", _given({"pkey": pkey, "mode": mode}) or None)


def _rdma(rdma: RdmaConfig) -> dict[str, object]:
    kinds = rdma.char_devices
    given: dict[str, object] = {} if kinds is None else {"charDevices": [str(k) for k in kinds]}
    return given | _given({"name": rdma.name})


def _given(pairs: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in pairs.items() if value}


def _route(route: RouteConfig) -> dict[str, object]:
    rest = {
        "gateway": route.gateway,
        "source": route.source,
        "scope": route.scope,
        "table": route.table,
        "metric": route.metric,
    }
    return {"destination": route.destination} | _given(rest)


def _rule(rule: RuleConfig) -> dict[str, object]:
    return _given(
        {
            "priority": rule.priority,
            "source": rule.source,
            "destination": rule.destination,
            "table": rule.table,
        }
    )


def _neighbour(entry: NeighbourConfig) -> dict[str, object]:
    return {"destination": entry.destination, "hardwareAddr": entry.hardware_addr}
