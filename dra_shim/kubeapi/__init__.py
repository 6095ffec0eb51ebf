"""Kubernetes API client: few kinds, plain documents, so that unknown fields survive.

errors.py       errors of requests
requests.py     requests as values: paths, queries, bodies
responses.py    responses as values: objects, lists, events, errors
rest_config.py  address and credentials of the server, from token_file.py or kubeconfig.py
client.py       requests sent
informer.py     a copy of some objects, kept by list and watch
"""

from dra_shim.kubeapi.client import Api
from dra_shim.kubeapi.errors import (
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
from dra_shim.kubeapi.informer import Mirror
from dra_shim.kubeapi.requests import (
    CLAIM,
    CLASS,
    EVENT,
    NODE,
    POD,
    REVIEW,
    SLICE,
    TEMPLATE,
    Document,
    Kind,
)
from dra_shim.kubeapi.responses import Change, Event, Listing, Object, name_of, uid_of, version_of
from dra_shim.kubeapi.rest_config import Access, access_of, connect, in_cluster

__all__ = [
    "CLAIM",
    "CLASS",
    "EVENT",
    "NODE",
    "POD",
    "REVIEW",
    "SLICE",
    "TEMPLATE",
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
