"""Inventory builder: derives the publishable devices from the facts of a scan.

Rules:
1. A PCI function is one device, with the attributes of its net device if that is on the host. While
   the net device is in a pod, the function has its own attributes only.
2. Every other net device is a separate device: another port of the function, a subfunction, a
   virtual link. One that shares an RDMA device has the attributes of its own port, and is marked,
   because RDMA devices move as a whole.
3. An RDMA device is matched by its place in the device tree, or by the net device that the kernel
   reports (rdma_owner.py), not by its GUID. Sub-devices (SMI) follow their parent.
4. Unsafe links are listed with the reason. An unusable device does not affect the others.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from dranet_nri.component.replace import replace
from dranet_nri.inventory.attribute_names import CHILDREN_ONLY, RDMA_SHARED
from dranet_nri.inventory.attributes import (
    MAX_ATTRIBUTES,
    azure_attributes,
    netdev_attributes,
    pci_attributes,
    rdma_attributes,
    within_budget,
)
from dranet_nri.inventory.azure import Placement, placements
from dranet_nri.inventory.exclusions import function_hazard, hazards_without_netdev
from dranet_nri.inventory.hazards import hazards, is_named, parent_hazards
from dranet_nri.inventory.host_facts import HostFacts, NetDevice, PciFunction, RdmaDeviceFacts
from dranet_nri.inventory.memo import Memo
from dranet_nri.inventory.names import interface_device_name, pci_device_name, port_device_name
from dranet_nri.inventory.rdma_owner import own_rdma
from dranet_nri.inventory.uplinks import Uplinks
from dranet_nri.model import (
    ARPHRD_INFINIBAND,
    AttributeValue,
    Device,
    DeviceKey,
    Link,
    is_representor,
)

_RECORDABLE: Final = re.compile(r"[A-Za-z0-9_][!-.0-~]{0,63}")
_IPOIB_STAYS: Final = "an IPoIB interface, which stays on the node (--move-ib-interfaces=false)"
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_VF_NUMBER: Final = re.compile(r"[0-9]+")
_MULTI_PORT_DRIVERS: Final = frozenset({"cxgb3", "cxgb4", "mlx4_core"})


@dataclass(frozen=True, slots=True)
class Inventory:
    """Devices of this node: published, and withheld with the reason.

    Attributes:
        devices: publishable devices, sorted by name.
        excluded: (name, reason) of excluded devices, sorted by name.
        unbound: names of excluded devices that only lack a network driver.
        parents: excluded devices that may be shared as parents of child links.
    """

    devices: tuple[Device, ...] = ()
    excluded: tuple[tuple[str, str], ...] = ()
    unbound: frozenset[str] = frozenset()
    parents: tuple[Device, ...] = ()


def inventory_from_facts(
    facts: HostFacts,
    uplinks: Uplinks | None = None,
    include: Sequence[str] = (),
    *,
    move_ipoib: bool = True,
    parents: Sequence[str] = (),
    memo: Memo | None = None,
) -> Inventory:
    """Return the node's devices, their names, and which are safe to publish.

    The result depends on the arguments only: call it again after changes of routes or links.

    Args:
        facts: facts of a scan.
        uplinks: uplinks of the same facts, None to derive them.
        include: patterns of links to which no heuristic applies.
        move_ipoib: False: IPoIB interfaces are neither devices nor part of one.
        parents: patterns of links that stay on the host as parents of child links.
        memo: of a pass that has begun, None to compute everything.
    """
    facts = _with_representors(_placed(facts))
    reasons = hazards(facts, uplinks, include)
    staying_reasons = parent_hazards(facts, uplinks, include, parents, among=reasons)
    facts, staying = (facts, ()) if move_ipoib else _without_ipoib(facts)
    without_netdev = hazards_without_netdev(facts)
    functions = {function.address: function for function in facts.functions}
    primaries = _primaries(facts, functions)
    staying_links = frozenset(reasons) - frozenset(staying_reasons)
    draft = _Draft(facts, staying_links, parents, memo or Memo())
    for function in facts.functions:
        name = pci_device_name(function.address)
        netdev = primaries.get(function.address)
        hazard = without_netdev.get(function.address, "")
        draft.add(name, netdev, function, reasons.get(netdev.link.index, "") if netdev else hazard)
        if netdev is None and function_hazard(function):
            draft.unbound.add(name)
    chosen = {netdev.link.index for netdev in primaries.values()}
    for netdev in facts.netdevs:
        if netdev.link.index not in chosen:
            parent = functions.get(netdev.pci)
            draft.add(
                _further_name(netdev, parent), netdev, parent, reasons.get(netdev.link.index, "")
            )
    inventory = draft.finish()
    return replace(inventory, excluded=tuple(sorted((*inventory.excluded, *staying))))


def why_invalid(device: Device, taken: Iterable[str]) -> str:
    """Return why the API server would refuse the device, "" if it accepts it.

    Args:
        device: the complete device.
        taken: device names in use on this node.
    """
    if not _LABEL.fullmatch(device.name):
        return f"the name {device.name!r} is not a DNS label"
    if device.name in taken:
        return "another device has the same name"
    if len(device.attributes) > MAX_ATTRIBUTES:
        return f"{len(device.attributes)} attributes, the limit is {MAX_ATTRIBUTES}"
    return ""


class _Draft:
    """Collects devices, exclusions, and the owners of RDMA devices."""

    def __init__(
        self, facts: HostFacts, staying: frozenset[int], parents: Sequence[str], memo: Memo
    ) -> None:
        """Start empty.

        Args:
            facts: facts of a scan.
            staying: ifindexes of links that may only be parents.
            parents: patterns of links that are offered as parents.
            memo: of this pass.
        """
        self._facts = facts
        self._memo = memo
        self._staying = staying
        self._patterns = parents
        self._parents: dict[str, Device] = {}
        self._placements = placements(facts.azure)
        bonds = {netdev.link.index for netdev in facts.netdevs if netdev.link.kind == "bond"}
        self._ports = [netdev.link for netdev in facts.netdevs if netdev.link.master in bonds]
        named = [device for device in facts.rdma if _RECORDABLE.fullmatch(device.name)]
        self._rdma = _RdmaOwners(named)
        self._devices: dict[str, Device] = {}
        self._excluded: list[tuple[str, str]] = []
        self._owners: Counter[str] = Counter()
        self.unbound: set[str] = set()

    def add(
        self, name: str, netdev: NetDevice | None, function: PciFunction | None, reason: str
    ) -> None:
        """Add one device, or exclude it if there is a reason."""
        link = netdev.link if netdev else None
        ports = [port for port in self._ports if link and port.master == link.index]
        rdma = self._rdma.of(netdev, function, ports)
        for rdma_device in rdma:
            self._owners[rdma_device.name] += link not in self._ports
        placement = self._placements.get(function.address[:4]) if function else None
        numa_nodes = self._facts.numa_nodes
        device = self._memo.get(
            (_device, name),
            (netdev, function, placement, numa_nodes, *rdma),
            lambda: _device(name, netdev, function, (rdma, placement, numa_nodes)),
        )
        ifname = netdev.link.name if netdev else ""
        if netdev and is_named(netdev, self._patterns):
            device = self._with_mark(device, CHILDREN_ONLY)
            reason = "" if netdev.link.index in self._staying else reason
        if not reason:
            reason, ifname = why_invalid(device, self._devices), ""
        if reason:
            text = f"{ifname}: {reason}" if ifname not in ("", name) else reason
            self._excluded.append((name, text))
            if netdev and netdev.link.index in self._staying:
                self._parents[name] = device
        else:
            self._devices[name] = device

    def finish(self) -> Inventory:
        """Return the inventory; RDMA devices without an owner are excluded by name."""
        self._excluded += [
            (ascii(device.name)[1:-1], _ownerless(device))
            for device in self._facts.rdma
            if device.name not in self._owners
        ]
        return Inventory(
            tuple(self._marked(self._devices[name]) for name in sorted(self._devices)),
            tuple(sorted(self._excluded)),
            frozenset(self.unbound),
            tuple(self._marked(self._parents[name]) for name in sorted(self._parents)),
        )

    def _marked(self, device: Device) -> Device:
        """Return the device, marked if it shares an RDMA device with another."""
        if all(self._owners[name] == 1 for name in device.rdma_devices):
            return device
        return self._with_mark(device, RDMA_SHARED)

    def _with_mark(self, device: Device, mark: str) -> Device:
        """Return the device with a mark, an attribute that is true."""

        def marked() -> Device:
            return replace(device, attributes=within_budget(dict(device.attributes) | {mark: True}))

        return self._memo.get((mark, device.name), (device,), marked)


def _ownerless(device: RdmaDeviceFacts) -> str:
    if not _RECORDABLE.fullmatch(device.name):
        return "an RDMA device whose name no record takes: rename it with rdma dev set"
    return "an RDMA device without a PCI function and without a net device here"


def _placed(facts: HostFacts) -> HostFacts:
    """Return the facts with the NUMA nodes from the table of an Azure size."""
    table = placements(facts.azure)

    def placed(function: PciFunction) -> PciFunction:
        placement = table.get(function.address[:4])
        if placement is None or function.numa_node >= 0:
            return function
        is_node = placement.numa_node < facts.numa_nodes
        return replace(function, numa_node=placement.numa_node) if is_node else function

    return replace(facts, functions=tuple(map(placed, facts.functions))) if table else facts


def _with_representors(facts: HostFacts) -> HostFacts:
    """Return the facts with the port names of representors in the form of current kernels.

    mlx5 before Linux 5.0 numbers the representors of VFs: "0" instead of "pf0vf0"
    (commit c12ecc2305, "Move to use common phys port names"). Other drivers number their ports.
    """
    numbered = {function.address for function in facts.functions if function.driver == "mlx5_core"}

    def renamed(netdev: NetDevice) -> NetDevice:
        if netdev.pci not in numbered or not _VF_NUMBER.fullmatch(netdev.port_name):
            return netdev
        return replace(netdev, port_name=f"pf{netdev.pci[-1]}vf{netdev.port_name}")

    return replace(facts, netdevs=tuple(map(renamed, facts.netdevs)))


def _without_ipoib(facts: HostFacts) -> tuple[HostFacts, tuple[tuple[str, str], ...]]:
    """Return the facts without IPoIB interfaces, and (name, reason) of these."""
    staying = [netdev.link for netdev in facts.netdevs if netdev.link.arphrd == ARPHRD_INFINIBAND]
    others = tuple(netdev for netdev in facts.netdevs if netdev.link not in staying)
    excluded = (
        (interface_device_name(link.name), f"{link.name}: {_IPOIB_STAYS}") for link in staying
    )
    return replace(facts, netdevs=others), tuple(excluded)


def _primaries(facts: HostFacts, functions: dict[str, PciFunction]) -> dict[str, NetDevice]:
    """Return PCI address -> the net device that belongs to the function's device.

    If a function has several ports, the first one does, even while it is in a pod, so that device
    names are stable.
    """
    children: dict[str, list[NetDevice]] = defaultdict(list)
    for device in facts.netdevs:
        function = functions.get(device.pci)
        if function and _is_own(device, function):
            children[device.pci].append(device)
    first = {
        address: min(devices, key=lambda one: (one.dev_port, one.link.index))
        for address, devices in children.items()
    }
    return {
        address: device
        for address, device in first.items()
        if not (device.dev_port and functions[address].driver in _MULTI_PORT_DRIVERS)
    }


def _is_own(device: NetDevice, function: PciFunction) -> bool:
    """Whether it is the function's direct child: no subfunction, representor or upper link."""
    link = device.link
    direct = (link.bus, link.parent) == (function.bus, function.parent or function.address)
    return direct and not link.lower and not is_representor(device.port_name)


def _further_name(device: NetDevice, function: PciFunction | None) -> str:
    if function and device.dev_port and _is_own(device, function):
        return port_device_name(function.address, device.dev_port)
    return interface_device_name(device.link.name)


class _RdmaOwners:
    """Index of the RDMA devices of net devices, and of functions without one."""

    def __init__(self, rdma: Sequence[RdmaDeviceFacts]) -> None:
        self._by_parent: dict[tuple[str, str], list[RdmaDeviceFacts]] = defaultdict(list)
        self._by_netdev: dict[str, list[RdmaDeviceFacts]] = defaultdict(list)
        for device in rdma:
            if device.parent:
                self._by_parent[device.bus, device.parent].append(device)
            for name in {name for port in device.ports for name in port.netdevs}:
                self._by_netdev[name].append(device)

    def of(
        self, netdev: NetDevice | None, function: PciFunction | None, ports: Sequence[Link]
    ) -> tuple[RdmaDeviceFacts, ...]:
        """Return the RDMA devices, sorted by name: hardware, software, and sub-devices last.

        Args:
            netdev: a net device, None without one.
            function: its PCI function, None without one.
            ports: its ports, if it is a bond.
        """
        if not (self._by_parent or self._by_netdev) or (
            netdev and is_representor(netdev.port_name)
        ):
            return ()  # the switch's side of a VF, not the VF
        key = _key(netdev, function)
        apart = {(port.bus, port.parent) for port in ports}
        places = ((key.bus, key.parent), ("pci", key.pci), *sorted(apart))
        below = (device for place in places for device in self._by_parent.get(place, ()))
        named = self._by_netdev.get(key.name, ())
        names = {device.name for device in named}
        possible = {device.name: device for device in (*below, *named)}
        found = own_rdma(key, tuple(possible.values()), lambda _: names, apart)
        return tuple(sorted(found, key=lambda one: (bool(one.part_of), not one.parent, one.name)))


def _device(
    name: str,
    netdev: NetDevice | None,
    function: PciFunction | None,
    context: tuple[tuple[RdmaDeviceFacts, ...], Placement | None, int],
) -> Device:
    """Return one device.

    Args:
        name: its name.
        netdev: its net device, None if not on the host.
        function: its PCI function, None without one.
        context: its RDMA devices, its placement, and the number of NUMA nodes.
    """
    rdma, placement, numa_nodes = context
    attributes: dict[str, AttributeValue] = {}
    ifname, dev_port = (netdev.link.name, netdev.dev_port) if netdev else ("", 0)
    if netdev:
        own = function if function and _is_own(netdev, function) else None
        attributes.update(netdev_attributes(netdev, own))
    if function:
        attributes.update(pci_attributes(function, numa_nodes))
    if placement:
        attributes.update(azure_attributes(placement))
    attributes.update(rdma_attributes(rdma, ifname, dev_port))
    return Device(
        name=name,
        key=_key(netdev, function),
        attributes=within_budget(attributes),
        rdma_devices=tuple(device.name for device in rdma),
    )


def _key(netdev: NetDevice | None, function: PciFunction | None) -> DeviceKey:
    pci = function.address if function else ""
    if netdev:
        link = netdev.link
        port = netdev.dev_port if link.parent else None
        return DeviceKey(link.bus, link.parent, link.name, pci, port)
    assert function is not None
    return DeviceKey(function.bus, function.parent or function.address, "", pci)
