"""The devices of this node, watched.

view.py     what is to be offered, and how it is, from facts, records and the administrator's choice
pace.py     when to look
notices.py  what is told
held.py     which devices records give to pods
host.py     the kernel: what it announces and shows
told.py     what the plugin tells of the host
reach.py    by which addresses the cluster reaches the node
eyes.py     what there is to offer, seen
teller.py   what became different, and who hears of it
devices.py  all of it put to work
"""

from dra_shim.node.devices import RESCAN_S, NodeDevices, NodeOptions
from dra_shim.node.notices import (
    Ailing,
    Deaf,
    LeftOut,
    LookFailed,
    LookStuck,
    Notice,
    Notify,
    Recovered,
    Seen,
    Untold,
)
from dra_shim.node.reach import AddressSource
from dra_shim.node.view import Choice

__all__ = [
    "RESCAN_S",
    "AddressSource",
    "Ailing",
    "Choice",
    "Deaf",
    "LeftOut",
    "LookFailed",
    "LookStuck",
    "NodeDevices",
    "NodeOptions",
    "Notice",
    "Notify",
    "Recovered",
    "Seen",
    "Untold",
]
