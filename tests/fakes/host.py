"""A node without a kernel: facts set by a test, announced by kernel events.

It obeys the same contract as the live one (tests/system/contract/test_node_host.py).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from threading import Event

from dra_shim.discovery.host import ScanRequest
from dra_shim.discovery.notices import Notify
from dranet_nri.inventory import HostFacts, NetDevice, PciFunction
from dranet_nri.model import Address, DefaultRoute, Link
from dranet_nri.state.privileged_facts import PrivilegedFacts


class FakeAddresses:
    """Addresses of the only Node of a cluster.

    Attributes:
        node_addresses: the Node's addresses.
        error: raised by the next lookups; None returns the addresses.
        lookups: the Node of each lookup.
    """

    def __init__(self, *node_addresses: str) -> None:
        """Start with these addresses."""
        self.node_addresses = frozenset(node_addresses)
        self.error: Exception | None = None
        self.lookups: list[str] = []

    async def addresses(self, node: str) -> frozenset[str]:
        """See AddressSource."""
        self.lookups.append(node)
        if self.error is not None:
            raise self.error
        return self.node_addresses


class FakeHost:
    """A node.

    Attributes:
        facts: what there is; who assigns them changes the node without a word.
        error: the error that a scan raises, None for none.
        scans: for each scan, whether it was full.
        may_scan: a scan waits until it is set.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.facts = HostFacts()
        self.error: Exception | None = None
        self.scans: list[bool] = []
        self.may_scan = Event()
        self.may_scan.set()
        self._request_scan: ScanRequest | None = None

    @contextmanager
    def listening(self, request_scan: ScanRequest, notify: Notify) -> Iterator[None]:
        """See Host."""
        self._request_scan = request_scan
        try:
            yield
        finally:
            self._request_scan = None

    def scan(self, *, full: bool, privileged_facts: PrivilegedFacts) -> HostFacts:
        """See Host."""
        self.scans.append(full)
        facts = self.facts
        self.may_scan.wait()
        if self.error is not None:
            raise self.error
        return replace(
            facts,
            netdevs=tuple(
                replace(
                    netdev,
                    tcx_programs=privileged_facts.programs.get(netdev.link.index, ()),
                    foreign_upper_kinds=privileged_facts.upper_kinds.get(netdev.link.index, ()),
                    underlay_of=privileged_facts.underlays.get(netdev.link.index, ()),
                )
                for netdev in facts.netdevs
            ),
        )

    def announce(self) -> None:
        """Send an event to the listeners."""
        if self._request_scan is not None:
            self._request_scan()

    def add_nic(self, name: str, address: str = "") -> None:
        """Add a link that is up and has a carrier.

        Args:
            name: of the link.
            address: of its PCI function, "" for a virtual one.
        """
        index = 1 + max((netdev.link.index for netdev in self.facts.netdevs), default=1)
        link = Link(index, name, bus="pci" * bool(address), parent=address, up=True, carrier=True)
        netdev = NetDevice(link, pci=address, virtual=not address)
        functions = (PciFunction(address, "ice"),) if address else ()
        self._become((*self.facts.netdevs, netdev), (*self.facts.functions, *functions))

    def give(self, name: str, *cidrs: str) -> None:
        """Give a link these addresses in place of those it has."""
        addresses = tuple(map(Address, cidrs))
        self._become(
            replace(netdev, addresses=addresses) if netdev.link.name == name else netdev
            for netdev in self.facts.netdevs
        )

    def take_link(self, name: str) -> None:
        """Remove a link, as a move into a pod does; its PCI function stays."""
        self._become(netdev for netdev in self.facts.netdevs if netdev.link.name != name)

    def unplug(self, name: str) -> None:
        """Remove a link's carrier."""
        self._become(
            replace(netdev, link=replace(netdev.link, carrier=False))
            if netdev.link.name == name
            else netdev
            for netdev in self.facts.netdevs
        )

    def remove_function(self, address: str) -> None:
        """Remove a PCI function and its links."""
        self._become(
            (netdev for netdev in self.facts.netdevs if netdev.pci != address),
            (function for function in self.facts.functions if function.address != address),
        )

    def route_through(self, name: str) -> None:
        """Let the default route go through a link; "" for no default route."""
        indexes = (netdev.link.index for netdev in self.facts.netdevs if netdev.link.name == name)
        routes = tuple(DefaultRoute(4, 0, (index,)) for index in indexes)
        self.facts = replace(self.facts, default_routes=routes)
        self.announce()

    def _become(
        self, netdevs: Iterable[NetDevice], functions: Iterable[PciFunction] | None = None
    ) -> None:
        present = self.facts.functions if functions is None else tuple(functions)
        self.facts = replace(self.facts, netdevs=tuple(netdevs), functions=present)
        self.announce()
