"""One scan of the node: host facts joined with the records read before and after.

A device that moves between host and pod meanwhile is in one of the two readings, or in the scan.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Protocol

from dra_shim.checkpoint.cache import RecordCache
from dra_shim.discovery.host import Host
from dra_shim.discovery.node_addresses import NodeAddresses
from dra_shim.discovery.notices import Notify, ScanHung
from dra_shim.discovery.snapshot import DeviceSelection, NodeSnapshot, snapshot_of, with_rdma
from dra_shim.discovery.tcx import TcxSource
from dranet_nri.component.threads import HangTimeout, in_thread
from dranet_nri.inventory import Memo, Uplinks, uplinks_of
from dranet_nri.model import Device


class CloudFacts(Protocol):
    """What a cloud provider knows of devices."""

    def enriched(self, device: Device) -> Device:
        """Return a device with what is known of it."""

    async def learned(self, devices: Iterable[Device]) -> bool:
        """Tell which devices there are; return whether more is known since."""


class NoCloud:
    """The facts of a machine in no cloud."""

    def enriched(self, device: Device) -> Device:
        """Return the device as it is."""
        return device

    async def learned(self, devices: Iterable[Device]) -> bool:  # noqa: ARG002
        """Learn nothing."""
        return False


class NodeScanner:
    """Scanner of one node, on threads; the event loop never waits for the kernel."""

    def __init__(
        self,
        host: Host,
        reach: NodeAddresses,
        choice: DeviceSelection,
        patience_s: float,
        notify: Notify,
        plugin: Path,
        clouds: CloudFacts,
    ) -> None:
        """Prepare a scanner; nothing is scanned yet.

        Args:
            host: to scan.
            reach: source of the node's addresses.
            choice: which devices are offered.
            patience_s: seconds of a scan after which it is reported as hung.
            notify: called then; must not raise.
            plugin: its directory, where it says what only a privileged process sees.
            clouds: what a cloud provider knows of devices.
        """
        self._host = host
        self._reach = reach
        self._choice = choice
        self._clouds = clouds
        self._uplinks: Uplinks | None = None  # as they were seen last
        self._memo = Memo()
        self._had_rdma: dict[str, Device] = {}  # functions, as they were when it was seen last
        self._told = TcxSource(plugin, notify)
        self._patience = HangTimeout(patience_s, lambda doing: notify(ScanHung(doing, patience_s)))

    async def see(self, held: RecordCache, *, whole: bool) -> NodeSnapshot:
        """Return what there is now, with what records give to pods.

        Args:
            held: the records.
            whole: read everything; see Host.

        Raises:
            DranetError: the node's addresses were never known.
            KernelError: the node cannot be scanned.
            StateError: a record cannot be read now.
            OSError: sysfs or the records cannot be read now.
        """
        addresses = await self._reach.addresses()
        before = held.devices()
        look = partial(self._host.look, whole=whole, insight=self._told.insight())
        facts = await in_thread(look, self._patience)
        known = tuple((before | held.devices()).values())
        self._uplinks = uplinks_of(facts, addresses, self._uplinks, self._choice.uplinks)
        self._had_rdma |= with_rdma(known)
        node, had = self._reach.node, dict(self._had_rdma)
        seen = partial(
            snapshot_of,
            *(node, facts, known, self._choice, self._uplinks, held.failing(), had),
            self._clouds.enriched,
            self._memo,
        )
        view = await in_thread(seen)
        if await self._clouds.learned(view.there.values()):
            view = await in_thread(seen)
        self._had_rdma |= with_rdma(view.there.values())
        return view
