"""Device pool: the node's devices as a scheduler sees them, published or not.

health.py  devices that are unhealthy
build.py   devices, taints, capacities, counters of PFs and their VFs
stock.py   devices that may be allocated, and their owners
"""

from dra_shim.pool.build import (
    BANDWIDTH,
    FUNCTIONS,
    UNHEALTHY,
    Feature,
    Goods,
    goods_of,
    near_of,
    physical_functions,
    rivals_of,
    without,
)
from dra_shim.pool.health import (
    NO_CARRIER,
    NO_DRIVER,
    NO_INTERFACE,
    NO_RDMA,
    PORT_DOWN,
    VANISHED,
    ailments,
)
from dra_shim.pool.stock import (
    Stock,
    Uses,
    derived_key,
    near_in,
    stock_of,
    with_shared,
)

__all__ = [
    "BANDWIDTH",
    "FUNCTIONS",
    "NO_CARRIER",
    "NO_DRIVER",
    "NO_INTERFACE",
    "NO_RDMA",
    "PORT_DOWN",
    "UNHEALTHY",
    "VANISHED",
    "Feature",
    "Goods",
    "Stock",
    "Uses",
    "ailments",
    "derived_key",
    "goods_of",
    "near_in",
    "near_of",
    "physical_functions",
    "rivals_of",
    "stock_of",
    "with_shared",
    "without",
]
