"""Prepare and Unprepare of claims for pods, as a kubelet requests them.

errors.py        errors that may pass
interfaces.py    sources of claims, pods and devices
events.py        results of calls and of the orphan collector, as events
allocation.py    the record and the answer of a claim, decided from server, pod and node
transactions.py  the transactions on the records
preparer.py      Prepare and Unprepare: one call at a time for each claim, an answer for each
orphans.py       orphaned records, and pods that wait for an earlier pod's claim
"""

from dra_shim.prepare.allocation import PreparedDevice, PrepareSettings
from dra_shim.prepare.errors import ApiUnavailableError, NotYetError
from dra_shim.prepare.events import (
    ClaimPrepared,
    ClaimUnprepared,
    Notice,
    Notify,
    OrphanRemoved,
    OrphanSearchFailed,
    PodSuperseded,
    PrepareFailed,
    PrepareWaits,
    UnprepareFailed,
)
from dra_shim.prepare.interfaces import ClaimSource, DeviceSource, NodeSource, PodSource
from dra_shim.prepare.orphans import OrphanCollector
from dra_shim.prepare.preparer import Preparer, PrepareResult, Sources

__all__ = [
    "ApiUnavailableError",
    "ClaimPrepared",
    "ClaimSource",
    "ClaimUnprepared",
    "DeviceSource",
    "NodeSource",
    "NotYetError",
    "Notice",
    "Notify",
    "OrphanCollector",
    "OrphanRemoved",
    "OrphanSearchFailed",
    "PodSource",
    "PodSuperseded",
    "PrepareFailed",
    "PrepareResult",
    "PrepareSettings",
    "PrepareWaits",
    "PreparedDevice",
    "Preparer",
    "Sources",
    "UnprepareFailed",
]
