"""Claims made ready for pods, as a kubelet asks for it.

errors.py    trouble that may pass
ports.py     what is needed of the API server and the inventory; what is told
wanted.py    what is recorded and answered, decided from what server, pod and node say
records.py   the transactions on the records
preparer.py  Prepare and Unprepare: patience, one call at a time for each claim, an answer for all
sweep.py     records that nobody will unprepare, and pods that nobody will prepare them for
"""

from dra_shim.prepare.errors import NotYetError, UnavailableError
from dra_shim.prepare.ports import (
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
from dra_shim.prepare.preparer import Answer, Preparer, Sources
from dra_shim.prepare.sweep import Sweeper
from dra_shim.prepare.wanted import PreparedDevice, Terms

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
