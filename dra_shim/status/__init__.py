"""Claim status and Events: what the node's records say, told to the cluster.

text.py          text and times as the API takes them
conditions.py    what is true of each device, from the two records of its claim
reasons.py       what happened, for the owner of a pod or a claim to read
summary.py       what the records of a claim come to: a status, occurrences, or nothing yet
apply_patch.py   status.devices as a server-side apply, if the server has something else
events.py        occurrences as Events
correlator.py    what is to be posted, and how much a subject may have
workqueue.py     which claim is to be written, and when
notices.py       what is told
record_watch.py  both directories of records, followed
claim_writer.py  the writer of claim status
recorder.py      the poster of Events
controller.py    all of it put to work
"""

from dra_shim.status.controller import StatusReporter
from dra_shim.status.notices import (
    Applied,
    ClaimGone,
    ClaimRefused,
    EventLost,
    Notice,
    Notify,
    Posted,
    StatusNotKept,
    Trouble,
)
from dra_shim.status.reasons import Occurrence

__all__ = [
    "Applied",
    "ClaimGone",
    "ClaimRefused",
    "EventLost",
    "Notice",
    "Notify",
    "Occurrence",
    "Posted",
    "StatusNotKept",
    "StatusReporter",
    "Trouble",
]
