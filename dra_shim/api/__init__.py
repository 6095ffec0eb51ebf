"""The API server: few kinds, plain documents, so that fields we do not know survive.

errors.py    what goes wrong
requests.py  what we ask, as values: paths, queries, bodies
replies.py   what is answered: objects, lists, events, errors
access.py    where the server is and who we are; tokens.py, kubeconfig.py what says so
client.py    requests sent
mirror.py    a copy of some objects, kept by list and watch
"""

from dra_shim.api.access import Access, access_of, connect, in_cluster
from dra_shim.api.client import Api
from dra_shim.api.errors import (
    ApiError,
    Cause,
    ConflictError,
    ExpiredError,
    InvalidError,
    NotFoundError,
    NotServedError,
    RejectedError,
    UnavailableError,
)
from dra_shim.api.mirror import Mirror
from dra_shim.api.replies import Change, Event, Listing, Object, name_of, uid_of, version_of
from dra_shim.api.requests import CLAIM, CLASS, EVENT, NODE, POD, REVIEW, SLICE, Document, Kind

__all__ = [
    "CLAIM",
    "CLASS",
    "EVENT",
    "NODE",
    "POD",
    "REVIEW",
    "SLICE",
    "Access",
    "Api",
    "ApiError",
    "Cause",
    "Change",
    "ConflictError",
    "Document",
    "Event",
    "ExpiredError",
    "InvalidError",
    "Kind",
    "Listing",
    "Mirror",
    "NotFoundError",
    "NotServedError",
    "Object",
    "RejectedError",
    "UnavailableError",
    "access_of",
    "connect",
    "in_cluster",
    "name_of",
    "uid_of",
    "version_of",
]
