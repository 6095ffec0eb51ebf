"""A client of the API server for tests: JSON over HTTPS, a connection for each request."""

from __future__ import annotations

import json
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any, Final, TypeAlias

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

    def delete(self, path: str) -> None:
        """Delete the object at this path without a grace period."""
        self._request("DELETE", path, {"gracePeriodSeconds": 0})

    def _request(self, method: str, path: str, body: Object | None = None) -> Object:
        connection = HTTPSConnection(HOST, self._port, timeout=DEADLINE_S, context=self._context)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, self._headers)
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
