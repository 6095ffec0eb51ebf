"""Claim status and Events, from the node's records.

text.py          text and times in the form of the API
conditions.py    conditions of each device, from the two records of its claim
reasons.py       event specs for the owner of a pod or a claim
summary.py       summary of a claim's records: status to write, event specs
apply_patch.py   status.devices as a server-side apply, if the server has something else
events.py        event specs as Events
correlator.py    events to post, and the rate limit of each subject
workqueue.py     claims whose status is to be written, and when
notices.py       notices of this room
record_watch.py  records of all claims as they change
claim_writer.py  the writer of claim status
recorder.py      the recorder of Events
controller.py    the loop
"""

from dra_shim.status.controller import StatusController
from dra_shim.status.notices import (
    ClaimGone,
    ClaimRefused,
    EventLost,
    EventPosted,
    Notice,
    StatusApplied,
    StatusNotKept,
    StatusSyncFailed,
)

__all__ = [
    "ClaimGone",
    "ClaimRefused",
    "EventLost",
    "EventPosted",
    "Notice",
    "StatusApplied",
    "StatusController",
    "StatusNotKept",
    "StatusSyncFailed",
]
