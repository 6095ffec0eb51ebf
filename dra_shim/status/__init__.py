"""Claim status and Events: what the node's records say, told to the cluster.

text.py         text and times as the API takes them
conditions.py   what is true of each device, from the two records of its claim
occurrences.py  what happened, for the owner of a pod or a claim to read
verdict.py      what the records of a claim come to: a status, occurrences, or nothing yet
document.py     status.devices as a server-side apply, if the server has something else
events.py       occurrences as Events
backlog.py      what is to be posted, and how much a subject may have
agenda.py       which claim is to be written, and when
notices.py      what is told
records.py      both directories of records, followed
claims.py       the writer of claim status
poster.py       the poster of Events
reporter.py     all of it put to work
"""

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
from dra_shim.status.occurrences import Occurrence
from dra_shim.status.reporter import StatusReporter

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
