"""Connection to the API server: REST configuration of the flags, and HTTP client."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import httpx2

from dra_shim.kubeapi.rest_config import RestConfig, in_cluster
from dranet_nri.errors import InvalidValueError

CONNECT_S: Final = 10.0
READ_S: Final = 30.0  # seconds without a byte; a watch has its own limit
# The server closes a connection after 90 s without a request (k8s.io/apiserver pkg/server,
# secure_serving.go). A new one takes a TLS handshake, which a pod's start would wait for.
LIMITS: Final = httpx2.Limits(
    max_connections=100, max_keepalive_connections=20, keepalive_expiry=80.0
)
AGENT: Final = "dra-shim"


def rest_config_of(kubeconfig: Path | None, environ: Mapping[str, str]) -> RestConfig:
    """Return the configuration of a kubeconfig, or that of this pod.

    Raises:
        InvalidValueError: there is no configuration, or it cannot be used.
    """
    if kubeconfig is None:
        return in_cluster(environ)
    # Imported here: lightkube, which reads kubeconfigs, takes 4 MiB of memory.
    from dra_shim.kubeapi.kubeconfig import from_kubeconfig

    return from_kubeconfig(kubeconfig)


def connect(access: RestConfig) -> httpx2.AsyncClient:
    """Return an HTTP client of the server; it connects at the first request.

    Raises:
        InvalidValueError: the server is not a URL.
    """
    try:
        client = httpx2.AsyncClient(
            base_url=access.server,
            verify=access.tls,
            auth=access.auth,
            timeout=httpx2.Timeout(READ_S, connect=CONNECT_S),
            limits=LIMITS,
            headers={"User-Agent": AGENT},
        )
    except httpx2.InvalidURL as error:
        raise InvalidValueError(f"{access.server}: not the URL of a server: {error}") from error
    if not client.base_url.host or client.base_url.scheme not in ("http", "https"):
        raise InvalidValueError(f"{access.server}: the server must be an http(s):// URL")
    return client
