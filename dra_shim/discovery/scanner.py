"""One scan of the node: host facts joined with the records read before and after it.

A device that moves between host and pod during a scan is in at least one of the two readings or the
scan.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Protocol

from dra_shim.checkpoint.cache import RecordCache, RecordedDevices
from dra_shim.discovery.host import Host
from dra_shim.discovery.node_addresses import NodeAddresses
from dra_shim.discovery.notices import Notify, ScanHung
from dra_shim.discovery.privileged_facts import PrivilegedFactsSource
from dra_shim.discovery.snapshot import DeviceSelection, NodeSnapshot, snapshot_of, with_rdma
from dranet_nri.component.threads import HangTimeout, in_thread
from dranet_nri.inventory import HostFacts, Memo, Uplinks, uplinks_of
from dranet_nri.model import Device


class CloudFacts(Protocol):
    """Facts from a cloud provider about devices."""

    def enriched(self, device: Device) -> Device:
        """Return a device with the known attributes."""

    async def update_devices(self, devices: Iterable[Device]) -> bool:
        """Set the devices; return whether new facts arrived."""


class NodeScanner:
    """Scanner of one node, on threads; the event loop never waits for the kernel."""

    def __init__(
        self,
        host: Host,
        node_addresses: NodeAddresses,
        selection: DeviceSelection,
        hang_timeout_s: float,
        notify: Notify,
        plugin: Path,
        clouds: CloudFacts,
    ) -> None:
        """Create the scanner; nothing is scanned yet.

        Args:
            host: the host to scan.
            node_addresses: addresses of the Node.
            selection: the selection of published devices.
            hang_timeout_s: seconds after which a scan is reported as hung.
            notify: called for a hung scan; must not raise.
            plugin: directory of the plugin, with facts that need privileges.
            clouds: facts from a cloud provider.
        """
        self._host = host
        self._node_addresses = node_addresses
        self._selection = selection
        self._clouds = clouds
        self._uplinks: Uplinks | None = None  # by the last scan
        self._memo = Memo()
        # functions, by the last scan that found their RDMA device
        self._last_with_rdma: dict[str, Device] = {}
        self._privileged_facts = PrivilegedFactsSource(plugin, notify)
        self._hang_timeout = HangTimeout(
            hang_timeout_s, lambda step: notify(ScanHung(step, hang_timeout_s))
        )

    async def scan(self, records: RecordCache, *, full: bool) -> NodeSnapshot:
        """Return a snapshot of the node, with the devices that records assign to pods.

        Args:
            records: the records of both processes.
            full: read everything; see Host.

        Raises:
            DranetError: the addresses of the Node were never known.
            KernelError: the node cannot be scanned.
            StateError: a record cannot be read now.
            OSError: sysfs or the records cannot be read now.
        """
        addresses = await self._node_addresses.addresses()
        before = records.devices()
        privileged_facts = self._privileged_facts.facts()

        def read() -> tuple[HostFacts, NodeSnapshot]:
            facts = self._host.scan(full=full, privileged_facts=privileged_facts)
            return facts, self._snapshot(facts, addresses, before)

        facts, snapshot = await in_thread(read, self._hang_timeout)
        recorded = before.then(records.devices())
        again = partial(self._snapshot, facts, addresses, recorded)
        if recorded != before:
            snapshot = await in_thread(again)
        if await self._clouds.update_devices(snapshot.allocatable.values()):
            snapshot = await in_thread(again)
        return snapshot

    def _snapshot(
        self,
        facts: HostFacts,
        addresses: frozenset[str],
        recorded: RecordedDevices,
    ) -> NodeSnapshot:
        self._uplinks = uplinks_of(facts, addresses, self._uplinks, self._selection.uplinks)
        self._last_with_rdma |= with_rdma(recorded.devices.values())
        snapshot = snapshot_of(
            self._node_addresses.node,
            facts,
            recorded,
            self._selection,
            self._uplinks,
            self._last_with_rdma,
            self._clouds.enriched,
            self._memo,
        )
        self._last_with_rdma |= with_rdma(snapshot.allocatable.values())
        return snapshot
