"""REST configuration: API server and credentials, from the service account or a kubeconfig."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx2

from dra_shim.kubeapi.token_file import TokenFile
from dranet_nri.errors import InvalidValueError

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CONNECT_S: Final = 10.0
READ_S: Final = 30.0  # without a byte; a watch has its own
# The server closes a connection after 90 s without a request (k8s.io/apiserver pkg/server,
# secure_serving.go). A new one takes a TLS handshake, which a pod's start would wait for.
LIMITS: Final = httpx2.Limits(
    max_connections=100, max_keepalive_connections=20, keepalive_expiry=80.0
)
AGENT: Final = "dra-shim"


@dataclass(frozen=True, slots=True)
class RestConfig:
    """Address and credentials of an API server.

    Attributes:
        server: its URL.
        tls: the trusted CA, and the client certificate if there is one.
        auth: source of the credentials; None for none, or for the certificate.
    """

    server: str
    tls: ssl.SSLContext
    auth: httpx2.Auth | None = None


def rest_config_of(kubeconfig: Path | None, environ: Mapping[str, str]) -> RestConfig:
    """Return the access that a kubeconfig gives, or without one that of this pod.

    Raises:
        InvalidValueError: there is none, or it cannot be used.
    """
    if kubeconfig is None:
        return in_cluster(environ)
    # What reads kubeconfigs brings a client and all kinds of Kubernetes: 4 MiB.
    from dra_shim.kubeapi.kubeconfig import from_kubeconfig

    return from_kubeconfig(kubeconfig)


def in_cluster(environ: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> RestConfig:
    """Return the access that the kubelet gives a pod.

    Raises:
        InvalidValueError: this is no pod, or its service account's files cannot be used.
    """
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "")
    token, authority = account / "token", account / "ca.crt"
    if not (host and port):
        raise InvalidValueError(
            "KUBERNETES_SERVICE_HOST and _PORT: not set, so this is no pod; give --kubeconfig"
        )
    if not token.is_file():
        raise InvalidValueError(f"{token}: no such file; mount a service account token there")
    try:
        tls = ssl.create_default_context(cafile=authority)
    except OSError as error:  # ssl.SSLError is one
        raise InvalidValueError(
            f"{authority}: no certificates: {error}; mount the cluster's ca.crt there"
        ) from error
    address = f"[{host}]" if ":" in host else host
    return RestConfig(f"https://{address}:{port}", tls, TokenFile(token))


def connect(access: RestConfig) -> httpx2.AsyncClient:
    """Return a client of the server; nothing is opened yet.

    Raises:
        InvalidValueError: the server is no URL.
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
