"""Claim status and Events, from the node's records.

text.py          text and times as the API takes them
conditions.py    conditions of each device, from the two records of its claim
reasons.py       event specs for the owner of a pod or a claim
summary.py       summary of a claim's records: a status, event specs, or nothing yet
apply_patch.py   status.devices as a server-side apply, if the server has something else
events.py        event specs as Events
correlator.py    events to post, and the rate of each subject
workqueue.py     claims whose status is to be written, and when
notices.py       events of this room
record_watch.py  both directories of records, watched
claim_writer.py  the writer of claim status
recorder.py      the poster of Events
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
