"""Claims made ready for pods, as a kubelet asks for it.

errors.py        trouble that may pass
interfaces.py    what is needed of the API server and the inventory; what is told
allocation.py    what is recorded and answered, decided from what server, pod and node say
transactions.py  the transactions on the records
preparer.py      Prepare and Unprepare: one call at a time for each claim, an answer for each
orphans.py       records that nobody will unprepare, and pods that nobody will prepare them for
"""

from dra_shim.prepare.allocation import PreparedDevice, Terms
from dra_shim.prepare.errors import NotYetError, UnavailableError
from dra_shim.prepare.interfaces import (
    ClaimSource,
    DeviceSource,
    NodeSource,
    Notice,
    Notify,
    PodSource,
    Prepared,
    PrepareFailed,
    PrepareWaits,
    Stranded,
    SweepFailed,
    Swept,
    Unprepared,
    UnprepareFailed,
)
from dra_shim.prepare.orphans import Sweeper
from dra_shim.prepare.preparer import Answer, Preparer, Sources

__all__ = [
    "Answer",
    "ClaimSource",
    "DeviceSource",
    "NodeSource",
    "NotYetError",
    "Notice",
    "Notify",
    "PodSource",
    "PrepareFailed",
    "PrepareWaits",
    "Prepared",
    "PreparedDevice",
    "Preparer",
    "Sources",
    "Stranded",
    "SweepFailed",
    "Sweeper",
    "Swept",
    "Terms",
    "UnavailableError",
    "UnprepareFailed",
    "Unprepared",
]
