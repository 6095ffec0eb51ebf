"""Device rules: parameters that a device or its node cannot apply."""

from collections.abc import Iterator, Sequence
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.config.addressing import gateway_violations
from dranet_nri.config.encode import interface_fields
from dranet_nri.config.json_cursor import show
from dranet_nri.config.scalars import ETHERNET_BYTES, INFINIBAND_BYTES, bytes_of_mac
from dranet_nri.model import (
    CharKind,
    Device,
    IpoibConfig,
    NetworkConfig,
    RdmaMode,
)

SHARED_MODE_WARNING: Final = (
    "RDMA devices are in shared mode, which isolates nothing: the pod lists those of the whole "
    "node, and every pod that holds a device's file can use it; for isolation start the node with "
    "'options ib_core netns_mode=0' in modprobe.d"
)

_WITH_NETDEV: Final = frozenset({"roce", "iw"})  # protocols over an interface of Ethernet
_USELESS_SHARE: Final = (
    "a share of it gives a pod nothing: its interface stays on the host, and it has no RDMA; let"
    ' --shared choose devices with RDMA (attributes["dra.net/rdma"].BoolValue), or claim one that'
    " is not shared"
)
_MAC_BYTES: Final = {"ether": ETHERNET_BYTES, "infiniband": INFINIBAND_BYTES}
_SOURCES: Final = {
    CharKind.UVERBS: "load module ib_uverbs",
    CharKind.RDMA_CM: "load module rdma_ucm",
    CharKind.UMAD: "load module ib_umad",
    CharKind.ISSM: "load module ib_umad; only InfiniBand ports have it",
}


def why_without_interface(device: Device) -> str:
    """Return why the device is of no use to a pod now, "" if it is usable.

    Without a net device only InfiniBand and EFA, which has none, are usable; any other device lacks
    its driver, or its net device is in another network namespace.
    """
    if device.key.name:
        return ""
    protocol = device.attribute("dra.net/rdmaProtocol")
    if device.rdma_devices and protocol not in _WITH_NETDEV:
        return ""
    return (
        "has no network interface on the host: its driver is being reloaded, or another network "
        "namespace has the interface (lsns -t net)"
    )


def violations_for_device(
    config: NetworkConfig, device: Device, *, share: bool = False
) -> tuple[str, ...]:
    """Return the violations of the configuration for the device, by its published facts.

    Args:
        config: all parameters, after every merge.
        device: the device.
        share: whether several pods share it, so that its interface stays on the host.
    """
    found: tuple[str, ...] = ()
    if device.attribute("dra.net/ifName") is None and device.rdma_devices:
        rule = "not possible on a device with RDMA but no network interface; remove it"
        found = tuple(f"{path}: {rule}" for path, _ in _of_interface(config))
    elif share:
        found = violations_for_share(config)
    if share and not device.rdma_devices and config.interface.child is None:
        found = (*found, _USELESS_SHARE)
    return (
        *found,
        *gateway_violations(config),
        *_mac_violations(config, device),
        *_child_violations(config, device),
        *_rdma_violations(config, device),
    )


def violations_for_share(config: NetworkConfig) -> tuple[str, ...]:
    """Return the violations for a share of a device without a child link."""
    if config.interface.child is not None:
        return ()
    rule = (
        "not possible on a share of a device, which stays on the host as it is; remove it, or claim"
        " a device that is not shared"
    )
    named = (("rdma.name", config.rdma.name),) if config.rdma.name else ()
    return tuple(
        f"{path}: {f'{show(value)}: ' if isinstance(value, int | str) else ''}{rule}"
        for path, value in (*_of_interface(config), *named)
    )


def _of_interface(config: NetworkConfig) -> Iterator[tuple[str, object]]:
    """Yield (field, value) of the settings that need a network interface.

    Without effect, so allowed, are false, which is the default, and empty lists. A child has rules
    of its own.
    """
    own = config.interface
    addressing = own.addressing if own.is_dynamic else None
    own = replace(own, addressing=addressing, ipoib=None, ipvlan=None, macvlan=None, vlan=None)
    for name, value in interface_fields(own):
        if value is not False and value != []:
            yield f"interface.{name}", value
    blocks: tuple[tuple[str, object], ...] = (
        ("routes", config.routes),
        ("rules", config.rules),
        ("neighbors", config.neighbors),
        ("ethtool", config.ethtool),
    )
    yield from ((name, block) for name, block in blocks if block)


def _mac_violations(config: NetworkConfig, device: Device) -> Iterator[str]:
    """Yield violations for link-layer addresses of another length than the device's.

    For a neighbor the kernel refuses a shorter one and truncates a longer one (neigh_add,
    net/core/neighbour.c).
    """
    encapsulation = device.attribute("dra.net/encapsulation")
    size = _MAC_BYTES.get(str(encapsulation))
    given = [("interface.hardwareAddr", config.interface.hardware_addr)]
    given += [
        (f"neighbors[{index}].hardwareAddr", neighbour.hardware_addr)
        for index, neighbour in enumerate(config.neighbors)
    ]
    for path, mac in given:
        if mac and size and bytes_of_mac(mac) != size:
            yield (
                f"{path}: {show(mac)}: has {bytes_of_mac(mac)} bytes, and those of the device "
                f"({encapsulation}) have {size}; write such a one"
            )


def _child_violations(config: NetworkConfig, device: Device) -> Iterator[str]:
    ifname = device.attribute("dra.net/ifName")
    encapsulation = device.attribute("dra.net/encapsulation")
    child = config.interface.child
    if child is None:
        if device.attribute("dra.net/childrenOnly"):
            yield (
                f"interface.type: {ifname} stays on the host (--parent-interfaces); use IPVLAN, "
                "MACVLAN or VLAN"
            )
        return
    mtu, most = config.interface.mtu, device.attribute("dra.net/mtu")
    if not isinstance(child, IpoibConfig):
        if encapsulation != "ether":
            yield (
                f"interface.type: {child.kind} needs an Ethernet interface, and the device has "
                f"{f'{ifname} ({encapsulation})' if ifname else 'none'}; remove it, or select "
                'devices by attributes["dra.net"].encapsulation == "ether"'
            )
        if config.interface.needs_addresses:
            yield (
                "interface.addresses: type IPVLAN inherits none from the host; give them, or [] "
                "for an interface without any"
            )
        if mtu is not None and isinstance(most, int) and mtu > most:
            yield (
                f"interface.mtu: {mtu}: is above that of {ifname}, the parent ({most}); lower it, "
                "or raise the parent's"
            )
        return
    if ifname is None:
        yield (
            "interface.type: IPoIB needs the device's own IPoIB interface as parent, and there is "
            "none; load the module ib_ipoib on the node, or remove it"
        )
    elif encapsulation != "infiniband":
        yield (
            f"interface.type: IPoIB needs an InfiniBand interface, and {ifname} is "
            f"{encapsulation}; remove it, or select devices by "
            'attributes["dra.net"].encapsulation == "infiniband"'
        )


def _rdma_violations(config: NetworkConfig, device: Device) -> Iterator[str]:
    names = device.rdma_devices
    given = (("rdma.charDevices", config.rdma.char_devices), ("rdma.name", config.rdma.name))
    if not names:
        for path, value in given:
            if value:
                yield f"{path}: not possible on a device without RDMA; remove it"
    elif config.rdma.name and (child := config.interface.child):
        yield (
            f"rdma.name: not possible with interface.type: {child.kind}, which leaves the RDMA "
            "device on the host; remove it"
        )
    elif config.rdma.name and len(names) > 1:
        yield (
            f"rdma.name: the device has {len(names)} RDMA devices ({', '.join(names)}), and a "
            "name fits one; remove it"
        )


def violations_for_mode(config: NetworkConfig, mode: RdmaMode | None) -> tuple[str, ...]:
    """Return the violations for the node's RDMA mode."""
    if config.rdma.name is None or mode is not RdmaMode.SHARED:
        return ()
    return (
        f'rdma.name: "{config.rdma.name}": not possible while the node shares its RDMA devices '
        "with all pods; remove it, or start the node with 'options ib_core netns_mode=0'",
    )


def char_kinds(config: NetworkConfig, default: tuple[CharKind, ...]) -> tuple[CharKind, ...]:
    """Return the kinds of device files for containers: the claim's, else the operator's."""
    chosen = config.rdma.char_devices
    return default if chosen is None else chosen


def missing_warning(rdma_device: str, missing: Sequence[CharKind]) -> str:
    """Return the warning for requested kinds of device files that do not exist."""
    listed = ", ".join(f"{kind} ({_SOURCES[kind]})" for kind in missing)
    return f"{rdma_device}: no device file of kind {listed}; the containers go without"
