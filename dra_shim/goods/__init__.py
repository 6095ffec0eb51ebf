"""What the node has to offer: its devices as a scheduler sees them, published or not.

health.py   which devices are not well
offered.py  devices, taints, capacities, counters of PFs and their VFs
"""

from dra_shim.goods.health import (
    NO_CARRIER,
    NO_DRIVER,
    NO_INTERFACE,
    NO_RDMA,
    PORT_DOWN,
    VANISHED,
    ailments,
)
from dra_shim.goods.offered import (
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
    "ailments",
    "goods_of",
    "near_of",
    "physical_functions",
    "rivals_of",
    "without",
]
