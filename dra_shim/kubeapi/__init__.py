"""Kubernetes API client for a few kinds, with plain documents, so that unknown fields survive.

errors.py       errors of requests
requests.py     requests as values: paths, queries, bodies
responses.py    responses as values: objects, lists, events, errors
rest_config.py  address and credentials of the server, from the files of the service account
                (token_file.py, ca_file.py) or kubeconfig.py
connect.py      HTTP client of a server
client.py       API client
informer.py     cache of the objects of one kind, by list and watch
"""

from dra_shim.kubeapi.client import ApiClient
from dra_shim.kubeapi.connect import HttpClient, KeepAlive, rest_config_of
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
from dra_shim.kubeapi.informer import Informer
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
from dra_shim.kubeapi.responses import (
    Object,
    ObjectList,
    WatchEventType,
    name_of,
    object_at,
    objects_at,
    uid_of,
    version_of,
)
from dra_shim.kubeapi.rest_config import RestConfig, in_cluster

__all__ = [
    "CLAIM",
    "CLASS",
    "EVENT",
    "NODE",
    "POD",
    "REVIEW",
    "SLICE",
    "TEMPLATE",
    "ApiClient",
    "ApiError",
    "Cause",
    "ConflictError",
    "Document",
    "ExpiredError",
    "HttpClient",
    "Informer",
    "InvalidError",
    "KeepAlive",
    "Kind",
    "NotFoundError",
    "NotServedError",
    "Object",
    "ObjectList",
    "RejectedError",
    "RestConfig",
    "UnavailableError",
    "WatchEventType",
    "in_cluster",
    "name_of",
    "object_at",
    "objects_at",
    "rest_config_of",
    "uid_of",
    "version_of",
]
