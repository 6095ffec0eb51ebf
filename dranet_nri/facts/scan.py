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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from dranet_nri.component.replace import replace
from dranet_nri.errors import KernelError
from dranet_nri.facts import azure, host, infiniband, links, privileged, sysfs
from dranet_nri.facts.invalidation import NOTHING, Event, Invalidated, invalidated_by
from dranet_nri.inventory import (
    HostFacts,
    NetDevice,
    PciFunction,
    RdmaDeviceFacts,
    parse_vm_size,
)
from dranet_nri.linux.dirfd import DirFd
from dranet_nri.linux.netlink.addresses import addresses
from dranet_nri.linux.netlink.links import TOO_LARGE
from dranet_nri.linux.netlink.policy_routing import dump_rules, policy_routes
from dranet_nri.linux.netlink.routes import main_routes
from dranet_nri.linux.netlink.rtnetlink import RtnetlinkSocket, open_here
from dranet_nri.model import Address, DefaultRoute, Link
from dranet_nri.state.privileged_facts import PrivilegedFacts

MANY_LINKS: Final = 64  # above it, full dumps are faster than one request per link


T = TypeVar("T", PciFunction, RdmaDeviceFacts)


def read_host(sysfs_root: Path = sysfs.SYSFS, azure_size: str = "") -> HostFacts:
    """Return the facts of a full scan.

    Links, addresses and routes are those of the calling thread's network namespace.

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

    by_index: dict[int, links.HostLink] = field(default_factory=dict)
    addresses: dict[int, tuple[Address, ...]] = field(default_factory=dict)
    filters: dict[int, tuple[str, ...]] = field(default_factory=dict)
    privileged_facts: PrivilegedFacts = field(default_factory=PrivilegedFacts)

    def read(self, netlink: RtnetlinkSocket, index: int) -> None:
        """Read a link again; remove one that is gone."""
        for cache in (self.by_index, self.addresses, self.filters):
            cache.pop(index, None)
        try:
            read_link = links.link(netlink, index)
            self.addresses |= addresses(netlink, index)
            self.filters[index] = links.tc_filters_of(netlink, index)
        except KernelError as error:
            if not error.already_gone and error.code not in TOO_LARGE:
                raise
        else:
            self.by_index[index] = read_link

    def privileged_of(self, index: int) -> tuple[tuple[str, ...], ...]:
        """Return a link's part of each of the privileged facts."""
        facts = self.privileged_facts
        return tuple(
            part.get(index, ()) for part in (facts.programs, facts.upper_kinds, facts.underlays)
        )

    def above(self, indexes: Collection[int]) -> set[int]:
        """Return the links whose lower link is one of these."""
        return {
            index
            for index, read in self.by_index.items()
            if read.link.lower in indexes or any(lower in indexes for lower in read.also_lower)
        }

    def tunnels(self) -> set[int]:
        """Return the tunnels that follow routes, of which most have no event."""
        return {index for index, read in self.by_index.items() if read.tunnel_ends[1]}


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
        last, self._last_scan = self._last_scan, None
        if whole or last is None or touched.everything or len(touched.links) > MANY_LINKS:
            last = self._everything(privileged_facts or PrivilegedFacts())
        else:
            last.links.privileged_facts = privileged_facts or PrivilegedFacts()
            last.facts = self._again(last, touched)
        self._last_scan = last
        return last.facts

    def _everything(self, privileged_facts: PrivilegedFacts) -> _LastScan:
        with closing(open_here()) as netlink:
            read_links = links.links(netlink)
            owned = addresses(netlink)
            filters = links.tc_filters(netlink)
            routes, by_daemon, sourced = main_routes(netlink)
            rules = policy_routes(netlink, dump_rules(netlink))
        rdma_netlink = infiniband.read_netlink_facts(self._sysfs)
        cache = LinkCache(
            {read.link.index: read for read in read_links}, owned, filters, privileged_facts
        )
        facts = host_facts(self._sysfs, cache, routes, rdma_netlink=rdma_netlink)
        facts = replace(
            facts,
            policy_routes=rules,
            daemon_routes=by_daemon,
            sourced_routes=sourced,
            azure=azure.azure_host(self._sysfs, self._size),
        )
        return _LastScan(facts, cache, rdma_netlink)

    def _again(self, last: _LastScan, touched: Invalidated) -> HostFacts:
        before, cached = last.facts, last.links.by_index
        indexes = touched.links | last.links.above(touched.links) | last.links.tunnels()
        concerned = [cached[index].link for index in indexes if index in cached]
        routed = {link for route in before.default_routes for link in route.links}
        routes, by_daemon = before.default_routes, before.daemon_routes
        rules, sourced = before.policy_routes, before.sourced_routes
        routed.update(*(rule.links for rule in rules), (index for index, _ in by_daemon))
        with closing(open_here()) as netlink:
            for index in indexes:
                last.links.read(netlink, index)
            if (
                touched.routes or indexes & routed
            ):  # IPv4 sends no event for routes lost with a link
                routes, by_daemon, sourced = main_routes(netlink)
                rules = policy_routes(netlink, dump_rules(netlink))
        concerned += [cached[index].link for index in indexes if index in cached]
        facts = replace(
            before,
            netdevs=tuple(self._netdevs(before.netdevs, last.links, indexes)),
            rdma=self._rdma(last, concerned, everything=touched.rdma),
            all_rdma=infiniband.are_all_visible(self._sysfs),
            default_routes=routes,
            policy_routes=rules,
            daemon_routes=by_daemon,
            sourced_routes=sourced,
        )
        if not touched.functions and _parent_functions(facts.rdma) == _parent_functions(
            before.rdma
        ):
            return facts
        functions = _reused(_functions(self._sysfs, facts.rdma), before.functions)
        return replace(
            facts,
            functions=functions,
            other_functions=_other_functions(self._sysfs, functions),
            azure=azure.azure_host(self._sysfs, self._size),
        )

    def _netdevs(
        self, before: Iterable[NetDevice], now: LinkCache, indexes: Collection[int]
    ) -> Iterator[NetDevice]:
        previous = {device.link.index: device for device in before}
        with DirFd(self._sysfs) as directory:
            for index in sorted(now.by_index):
                same = index in previous and index not in indexes
                if same and _privileged(previous[index]) == now.privileged_of(index):
                    yield previous[index]
                    continue
                place = sysfs.net_parent(directory, now.by_index[index].link)
                read = _net_device(now, index, place)
                yield previous[index] if previous.get(index) == read else read

    def _rdma(
        self, last: _LastScan, concerned: Sequence[Link], *, everything: bool
    ) -> tuple[RdmaDeviceFacts, ...]:
        """Return the RDMA devices; those with invalidated ports or links are read again."""
        before = last.facts.rdma
        if everything:
            last.rdma_netlink = infiniband.read_netlink_facts(self._sysfs)
            return _reused(infiniband.rdma_devices(self._sysfs, last.rdma_netlink), before)
        names = {device.name for device in before if _is_of(device, concerned)}
        if not names:
            return before
        last.rdma_netlink = infiniband.reread_netlink_facts(last.rdma_netlink, names)
        return _reused(
            infiniband.reread_rdma_devices(self._sysfs, before, names, last.rdma_netlink),
            before,
        )


def host_facts(
    sysfs_root: Path,
    cache: LinkCache,
    routes: tuple[DefaultRoute, ...],
    *,
    rdma_netlink: infiniband.RdmaNetlinkFacts | None = None,
) -> HostFacts:
    """Return netlink facts joined with sysfs facts.

    Args:
        sysfs_root: where sysfs is mounted.
        cache: every link of the namespace.
        routes: the default routes.
        rdma_netlink: netlink facts of RDMA devices, None without.
    """
    rdma = infiniband.rdma_devices(sysfs_root, rdma_netlink)
    functions = _functions(sysfs_root, rdma)
    with DirFd(sysfs_root) as directory:
        netdevs = tuple(
            _net_device(cache, index, sysfs.net_parent(directory, read.link))
            for index, read in cache.by_index.items()
        )
    near = sysfs.numa_near(sysfs_root)
    others = _other_functions(sysfs_root, functions)
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
    return sysfs.pci_functions(sysfs_root, _parent_functions(rdma), host.pci_names)


def _other_functions(sysfs_root: Path, functions: Iterable[PciFunction]) -> frozenset[str]:
    """Return the addresses of all other functions."""
    return sysfs.pci_addresses(sysfs_root) - {function.address for function in functions}


def _parent_functions(rdma: Iterable[RdmaDeviceFacts]) -> frozenset[str]:
    """Return the addresses of the PCI functions of RDMA devices."""
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
    previous = {item: item for item in before}
    return tuple(previous.get(item, item) for item in read)


def _privileged(device: NetDevice) -> tuple[tuple[str, ...], ...]:
    return device.tcx_programs, device.foreign_upper_kinds, device.underlay_of


def _net_device(cache: LinkCache, index: int, place: sysfs.NetParent) -> NetDevice:
    host_link = cache.by_index[index]
    programs, upper_kinds, encryption = cache.privileged_of(index)
    return NetDevice(
        link=replace(host_link.link, bus=place.bus, parent=place.parent),
        addresses=cache.addresses.get(index, ()),
        pci=place.pci,
        virtual=place.virtual,
        dev_port=place.dev_port,
        port_name=host_link.port_name,
        speed_mbps=place.speed_mbps,
        pinned=host_link.pinned or place.wireless,
        also_lower=host_link.also_lower,
        tunnel_ends=host_link.tunnel_ends,
        unreadable=host_link.unreadable,
        tc_filters=cache.filters.get(index, ()),
        tcx_programs=programs,
        foreign_upper_kinds=upper_kinds,
        underlay_of=encryption,
    )
