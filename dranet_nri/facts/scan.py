"""Host scanner: full scans of the host, and incremental ones after kernel events.

Rules:
1. An incremental scan reads the facts that events invalidated, and those without events: routes
   that disappear with their link, and upper links.
2. A value that was not read again, or is equal, is the same object as before.
3. After an error the next scan is a full one.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, TypeVar

from dranet_nri.errors import KernelError
from dranet_nri.facts import azure, host, infiniband, links, privileged, sysfs
from dranet_nri.facts.invalidation import NOTHING, Event, Invalidated, invalidated_by
from dranet_nri.inventory import (
    HostFacts,
    Inventory,
    NetDevice,
    PciFunction,
    RdmaDeviceFacts,
    inventory_from_facts,
    parse_vm_size,
)
from dranet_nri.linux.dirfd import DirFd
from dranet_nri.linux.netlink.addresses import addresses
from dranet_nri.linux.netlink.links import TOO_LARGE
from dranet_nri.linux.netlink.policy_routing import policy_routes
from dranet_nri.linux.netlink.routes import default_routes
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket, open_here
from dranet_nri.model import Address, DefaultRoute, Link
from dranet_nri.state.tcx import PrivilegedFacts

MANY_LINKS: Final = 64  # above it, full dumps are faster than one request per link


T = TypeVar("T", PciFunction, RdmaDeviceFacts)


def scan(sysfs_root: Path = sysfs.SYSFS, azure_size: str = "") -> Inventory:
    """Return the current inventory; nothing is cached between calls.

    Links, addresses and routes are those of the calling thread's network namespace.

    Args:
        sysfs_root: mount point of a sysfs of the same namespace.
        azure_size: Azure's name of this machine's size, "" if unknown.

    Raises:
        KernelError: a netlink dump failed.
        InvalidValueError: the VM size is unknown.
    """
    return inventory_from_facts(read_host(sysfs_root, azure_size))


def read_host(sysfs_root: Path = sysfs.SYSFS, azure_size: str = "") -> HostFacts:
    """Return the facts of a full scan.

    Args:
        sysfs_root: mount point of a sysfs of the same namespace.
        azure_size: Azure's name of this machine's size, "" if unknown.

    Raises:
        KernelError: a netlink dump failed.
        InvalidValueError: the VM size is unknown.
    """
    return Scanner(sysfs_root, azure_size).scan(
        whole=True, privileged_facts=privileged.read_allowed_facts()
    )


@dataclass(slots=True)
class LinkCache:
    """Links of the last scan by ifindex, with their facts.

    Attributes:
        filters: names of BPF classifiers.
        privileged_facts: those that need privilege to read.
    """

    seen: dict[int, links.HostLink] = field(default_factory=dict)
    addresses: dict[int, tuple[Address, ...]] = field(default_factory=dict)
    filters: dict[int, tuple[str, ...]] = field(default_factory=dict)
    privileged_facts: PrivilegedFacts = field(default_factory=PrivilegedFacts)

    def read(self, netlink: RtnetlinkSocket, index: int) -> None:
        """Read a link again; remove one that is gone."""
        for known in (self.seen, self.addresses, self.filters):
            known.pop(index, None)
        try:
            seen = links.link(netlink, index)
            self.addresses |= addresses(netlink, index)
            self.filters[index] = links.tc_filters_of(netlink, index)
        except KernelError as error:
            if not error.already_gone and error.code not in TOO_LARGE:
                raise
        else:
            self.seen[index] = seen

    def privileged_of(self, index: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return a link's privileged facts: TCX programs, and kinds of links over it elsewhere."""
        return self.privileged_facts.programs.get(index, ()), self.privileged_facts.above.get(
            index, ()
        )

    def above(self, indexes: Collection[int]) -> set[int]:
        """Return the links whose lower link is one of these."""
        return {index for index, read in self.seen.items() if read.link.lower in indexes}


@dataclass(slots=True)
class _LastScan:
    """Facts of the last scan.

    Attributes:
        rdma_netlink: netlink facts of RDMA devices.
    """

    facts: HostFacts
    links: LinkCache
    rdma_netlink: infiniband.RdmaNetlinkFacts


class Scanner:
    """Scans the host repeatedly.

    Links, addresses and routes are those of the calling thread's network namespace.
    """

    def __init__(self, sysfs_root: Path = sysfs.SYSFS, azure_size: str = "") -> None:
        """Prepare; `scan` reads.

        Args:
            sysfs_root: mount point of a sysfs of the same namespace.
            azure_size: Azure's name of this machine's size, "" if unknown.

        Raises:
            InvalidValueError: the VM size is unknown.
        """
        self._sysfs = sysfs_root
        self._size = parse_vm_size(azure_size)
        self._invalidated: deque[Invalidated] = deque()
        self._last_scan: _LastScan | None = None

    def invalidate(self, events: Iterable[Event]) -> bool:
        """Record what the next scan must read; return whether that is anything. Thread-safe."""
        touched = invalidated_by(events)
        if touched == NOTHING:
            return False
        self._invalidated.append(touched)
        return True

    def scan(self, *, whole: bool, privileged_facts: PrivilegedFacts | None = None) -> HostFacts:
        """Return the current facts; one thread at a time.

        Args:
            whole: read everything, not only invalidated facts.
            privileged_facts: current facts that need privilege to read, None if unknown.

        Raises:
            KernelError: a netlink dump failed.
        """
        touched = NOTHING
        while self._invalidated:
            touched |= self._invalidated.popleft()
        seen, self._last_scan = self._last_scan, None
        if whole or seen is None or touched.everything or len(touched.links) > MANY_LINKS:
            seen = self._everything(privileged_facts or PrivilegedFacts())
        else:
            seen.links.privileged_facts = privileged_facts or PrivilegedFacts()
            seen.facts = self._again(seen, touched)
        self._last_scan = seen
        return seen.facts

    def _everything(self, privileged_facts: PrivilegedFacts) -> _LastScan:
        with closing(open_here()) as netlink:
            seen = links.links(netlink)
            owned = addresses(netlink)
            filters = links.tc_filters(netlink)
            routes, rules = default_routes(netlink), policy_routes(netlink)
        rdma_netlink = infiniband.read_netlink_facts(self._sysfs)
        known = LinkCache(
            {read.link.index: read for read in seen}, owned, filters, privileged_facts
        )
        facts = host_facts(self._sysfs, known, routes, rdma_netlink=rdma_netlink)
        facts = replace(facts, policy_routes=rules, azure=azure.azure_host(self._sysfs, self._size))
        return _LastScan(facts, known, rdma_netlink)

    def _again(self, seen: _LastScan, touched: Invalidated) -> HostFacts:
        before = seen.facts
        indexes = touched.links | seen.links.above(touched.links)
        concerned = [seen.links.seen[index].link for index in indexes if index in seen.links.seen]
        legs = {leg for route in before.default_routes for leg in route.links}
        routes, rules = before.default_routes, before.policy_routes
        legs.update(*(rule.links for rule in rules))
        with closing(open_here()) as netlink:
            for index in indexes:
                seen.links.read(netlink, index)
            if touched.routes or indexes & legs:  # IPv4 sends no event for routes lost with a link
                routes, rules = default_routes(netlink), policy_routes(netlink)
        concerned += [seen.links.seen[index].link for index in indexes if index in seen.links.seen]
        facts = replace(
            before,
            netdevs=tuple(self._netdevs(before.netdevs, seen.links, indexes)),
            rdma=self._rdma(seen, concerned, everything=touched.rdma),
            all_rdma=infiniband.are_all_visible(self._sysfs),
            default_routes=routes,
            policy_routes=rules,
        )
        if not touched.functions and _above(facts.rdma) == _above(before.rdma):
            return facts
        functions = _reused(_functions(self._sysfs, facts.rdma), before.functions)
        return replace(
            facts,
            functions=functions,
            other_functions=_besides(self._sysfs, functions),
            azure=azure.azure_host(self._sysfs, self._size),
        )

    def _netdevs(
        self, before: Iterable[NetDevice], now: LinkCache, indexes: Collection[int]
    ) -> Iterator[NetDevice]:
        known = {device.link.index: device for device in before}
        with DirFd(self._sysfs) as folder:
            for index in sorted(now.seen):
                same = index in known and index not in indexes
                if same and _privileged(known[index]) == now.privileged_of(index):
                    yield known[index]
                    continue
                place = sysfs.net_parent(folder, now.seen[index].link)
                read = _net_device(now, index, place)
                yield known[index] if known.get(index) == read else read

    def _rdma(
        self, seen: _LastScan, concerned: Sequence[Link], *, everything: bool
    ) -> tuple[RdmaDeviceFacts, ...]:
        """Return the RDMA devices; those with invalidated ports or links are read again."""
        before = seen.facts.rdma
        if everything:
            seen.rdma_netlink = infiniband.read_netlink_facts(self._sysfs)
            return _reused(infiniband.rdma_devices(self._sysfs, seen.rdma_netlink), before)
        names = {device.name for device in before if _is_of(device, concerned)}
        if not names:
            return before
        seen.rdma_netlink = infiniband.reread_netlink_facts(seen.rdma_netlink, names)
        return _reused(
            infiniband.reread_rdma_devices(self._sysfs, before, names, seen.rdma_netlink), before
        )


def host_facts(
    sysfs_root: Path,
    seen: LinkCache,
    routes: tuple[DefaultRoute, ...],
    *,
    rdma_netlink: infiniband.RdmaNetlinkFacts | None = None,
) -> HostFacts:
    """Return netlink facts joined with sysfs facts.

    Args:
        sysfs_root: where sysfs is mounted.
        seen: every link of the namespace.
        routes: the default routes.
        rdma_netlink: netlink facts of RDMA devices, None without.
    """
    rdma = infiniband.rdma_devices(sysfs_root, rdma_netlink)
    functions = _functions(sysfs_root, rdma)
    with DirFd(sysfs_root) as folder:
        netdevs = tuple(
            _net_device(seen, index, sysfs.net_parent(folder, read.link))
            for index, read in seen.seen.items()
        )
    near = sysfs.numa_near(sysfs_root)
    others = _besides(sysfs_root, functions)
    return HostFacts(
        functions,
        netdevs,
        rdma,
        routes,
        max(1, len(near)),
        numa_near=near,
        other_functions=others,
        all_rdma=infiniband.are_all_visible(sysfs_root),
    )


def _functions(sysfs_root: Path, rdma: Iterable[RdmaDeviceFacts]) -> tuple[PciFunction, ...]:
    return sysfs.pci_functions(sysfs_root, _above(rdma), host.pci_names)


def _besides(sysfs_root: Path, functions: Iterable[PciFunction]) -> frozenset[str]:
    """Return the addresses of all other functions."""
    return sysfs.pci_addresses(sysfs_root) - {function.address for function in functions}


def _above(rdma: Iterable[RdmaDeviceFacts]) -> frozenset[str]:
    """Return the addresses of the functions above RDMA devices."""
    return frozenset(device.pci for device in rdma if device.pci)


def _is_of(device: RdmaDeviceFacts, concerned: Sequence[Link]) -> bool:
    """Whether one of the links belongs to a port of the RDMA device."""
    names = {name for port in device.ports for name in port.netdevs}
    place = (device.bus, device.parent)
    return any(
        link.name in names or (device.parent and (link.bus, link.parent) == place)
        for link in concerned
    )


def _reused(read: tuple[T, ...], before: tuple[T, ...]) -> tuple[T, ...]:
    """Return what was read, with the previous objects for equal values."""
    known = {item: item for item in before}
    return tuple(known.get(item, item) for item in read)


def _privileged(device: NetDevice) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return device.tcx_programs, device.above_elsewhere


def _net_device(known: LinkCache, index: int, place: sysfs.NetParent) -> NetDevice:
    seen = known.seen[index]
    programs, above = known.privileged_of(index)
    return NetDevice(
        link=replace(seen.link, bus=place.bus, parent=place.parent),
        addresses=known.addresses.get(index, ()),
        pci=place.pci,
        virtual=place.virtual,
        dev_port=place.dev_port,
        port_name=seen.port_name,
        speed_mbps=place.speed_mbps,
        pinned=seen.pinned,
        tunnel_source=seen.tunnel_source,
        unreadable=seen.unreadable,
        tc_filters=known.filters.get(index, ()),
        tcx_programs=programs,
        above_elsewhere=above,
    )
