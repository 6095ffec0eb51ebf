"""Prepare and Unprepare of claims for pods, as the kubelet requests them.

errors.py        retriable errors
interfaces.py    sources of claims, pods and devices
notices.py       notices of Prepare, Unprepare and the orphan collector
allocation.py    record and response of a claim, computed from server, pod and node
transactions.py  transactions on the records
preparer.py      Prepare and Unprepare: one call at a time for each claim
profiles.py      parameters of clouds and profiles, and the release of profiles
claim_locks.py   locks of claims, and the tasks that prepare them
orphans.py       orphaned records, and pods that wait for the claim of an earlier pod
"""

from dra_shim.prepare.allocation import PreparedDevice, PrepareSettings
from dra_shim.prepare.errors import ApiUnavailableError, NotYetError
from dra_shim.prepare.interfaces import ClaimSource, DeviceSource, PodSource
from dra_shim.prepare.notices import (
    ClaimPrepared,
    ClaimUnprepared,
    Notice,
    Notify,
    OrphanRemoved,
    OrphanSearchFailed,
    PodSuperseded,
    PrepareFailed,
    PrepareWaits,
    ProfileReleased,
    ProfileReleaseFailed,
    UnprepareFailed,
)
from dra_shim.prepare.orphans import OrphanCollector
from dra_shim.prepare.preparer import Preparer, PrepareResult, Sources
from dra_shim.prepare.profiles import ProfileReleaser, Providers, RunLocked

__all__ = [
    "ApiUnavailableError",
    "ClaimPrepared",
    "ClaimSource",
    "ClaimUnprepared",
    "DeviceSource",
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
    "ProfileReleaseFailed",
    "ProfileReleased",
    "ProfileReleaser",
    "Providers",
    "RunLocked",
    "Sources",
    "UnprepareFailed",
]
