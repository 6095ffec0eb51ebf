"""Discovery: the devices of this node, watched.

snapshot.py          devices to publish and their health, from facts, records and settings
schedule.py          times of scans
notices.py           notices of this room
host.py              kernel events and scans
privileged_facts.py  facts of the host that only the plugin can read
node_addresses.py    addresses of the Node
scanner.py           one scan, joined with the records
reporter.py          differences between snapshots; health reports
controller.py        the loop
"""

from dra_shim.discovery.controller import NodeDevices, NodeOptions
from dra_shim.discovery.node_addresses import AddressSource
from dra_shim.discovery.notices import (
    DeviceRecovered,
    DevicesChanged,
    DevicesExcluded,
    DeviceUnhealthy,
    EventSourceLost,
    Notice,
    PrivilegedFactsUnreadable,
    ScanFailed,
    ScanHung,
)
from dra_shim.discovery.snapshot import DeviceSelection

__all__ = [
    "AddressSource",
    "DeviceRecovered",
    "DeviceSelection",
    "DeviceUnhealthy",
    "DevicesChanged",
    "DevicesExcluded",
    "EventSourceLost",
    "NodeDevices",
    "NodeOptions",
    "Notice",
    "PrivilegedFactsUnreadable",
    "ScanFailed",
    "ScanHung",
]
