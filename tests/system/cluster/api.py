"""A client of the API server for tests: JSON over HTTPS, a connection for each request."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from tests.system.cluster.pki import Identity

HOST: Final = "127.0.0.1"
DEADLINE_S: Final = 120
Object: TypeAlias = dict[str, Any]  # a Kubernetes object as JSON


class ApiError(Exception):
    """The API server refused; status is its HTTP status code."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status


class Api:
    """The API server at a port of the loopback, as one user sees it.

    Args:
        port: Where it listens.
        ca: The certificate of its authority.
        who: A client certificate, or the text of a token.
    """

    def __init__(self, port: int, ca: Path, who: Identity | str) -> None:
        self._port = port
        self._context = ssl.create_default_context(cafile=ca)
        self._headers = {"Content-Type": "application/json", "Accept": "application/json"}
        self._collections: dict[str, dict[str, Object]] = {}  # by API version and kind
        if isinstance(who, Identity):
            self._context.load_cert_chain(who.certificate, who.key)
        else:
            self._headers["Authorization"] = f"Bearer {who}"

    def get(self, path: str) -> Object:
        """Return the object or list at this path.

        Raises:
            ApiError: Refused. The methods below raise it as well.
        """
        return self._request("GET", path)

    def create(self, path: str, body: Object) -> Object:
        """Create an object in the collection at this path; return it as the server keeps it."""
        return self._request("POST", path, body)

    def replace(self, path: str, body: Object) -> Object:
        """Replace the object at this path; return it as the server keeps it."""
        return self._request("PUT", path, body)

    def apply(self, manifest: str, namespace: str) -> None:
        """Apply the documents of a manifest as `kubectl apply --server-side` does.

        A process of kubectl takes 0.2 s of CPU time. Its own ways are tested where examples and
        the driver's manifests are applied.

        Args:
            manifest: YAML or JSON.
            namespace: of documents that name none.
        """
        for document in filter(None, yaml.safe_load_all(manifest)):
            path = self._path_of(document, namespace)
            query = "fieldManager=tests&force=true&fieldValidation=Strict"
            media = {"Content-Type": "application/apply-patch+yaml"}
            self._request("PATCH", f"{path}?{query}", document, media)

    def delete(self, path: str, grace_s: int = 0) -> None:
        """Delete the object, or all objects of the collection, at this path."""
        self._request("DELETE", path, {"gracePeriodSeconds": grace_s})

    def _path_of(self, document: Object, namespace: str) -> str:
        version, metadata = document["apiVersion"], document["metadata"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if version not in self._collections:
            resources = self.get(root)["resources"]
            self._collections[version] = {
                resource["kind"]: resource for resource in resources if "/" not in resource["name"]
            }
        resource = self._collections[version][document["kind"]]
        namespace_of = metadata.get("namespace", namespace)
        space = f"/namespaces/{namespace_of}" if resource["namespaced"] else ""
        return f"{root}{space}/{resource['name']}/{metadata['name']}"

    def _request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Object:
        connection = HTTPSConnection(HOST, self._port, timeout=DEADLINE_S, context=self._context)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {**self._headers, **(headers or {})})
            response = connection.getresponse()
            answer: Object = json.loads(response.read())
        finally:
            connection.close()
        if response.status >= 300:
            raise ApiError(response.status, answer.get("message", ""))
        return answer


def answers(port: int, path: str, ca: Path | None = None) -> bool:
    """Tell whether the server at this port of the loopback says 200 to GET path.

    Args:
        port: Where it listens.
        path: Such as `/readyz`.
        ca: The certificate of its authority; None for HTTP without TLS.
    """
    connection = HTTPConnection(HOST, port, timeout=DEADLINE_S)
    if ca is not None:
        context = ssl.create_default_context(cafile=ca)
        connection = HTTPSConnection(HOST, port, timeout=DEADLINE_S, context=context)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
