"""Device pool: the node's devices for the scheduler, published or not.

health.py         unhealthy devices and their reasons, the values of their taints
health_report.py  health of the published devices, for the kubelet
build.py          devices, taints, capacities, counters of PFs and their VFs
inventory.py      allocatable devices, and their owners
"""

from dra_shim.pool.build import (
    FUNCTIONS,
    UNHEALTHY,
    DriverResources,
    Feature,
    conflicts_of,
    driver_resources,
    near_of,
    physical_functions,
    without,
)
from dra_shim.pool.health import (
    NO_CARRIER,
    NO_DRIVER,
    NO_INTERFACE,
    NO_RDMA,
    PORT_DOWN,
    VANISHED,
    unhealthy_reasons,
)
from dra_shim.pool.health_report import DeviceHealth, HealthReport, HealthSource
from dra_shim.pool.inventory import (
    DeviceUsage,
    NodeInventory,
    derived_key,
    near_in,
    node_inventory,
    with_shared,
)

__all__ = [
    "FUNCTIONS",
    "NO_CARRIER",
    "NO_DRIVER",
    "NO_INTERFACE",
    "NO_RDMA",
    "PORT_DOWN",
    "UNHEALTHY",
    "VANISHED",
    "DeviceHealth",
    "DeviceUsage",
    "DriverResources",
    "Feature",
    "HealthReport",
    "HealthSource",
    "NodeInventory",
    "conflicts_of",
    "derived_key",
    "driver_resources",
    "near_in",
    "near_of",
    "node_inventory",
    "physical_functions",
    "unhealthy_reasons",
    "with_shared",
    "without",
]
