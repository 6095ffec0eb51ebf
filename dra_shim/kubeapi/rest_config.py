"""REST configuration: API server and credentials, from the service account."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from dra_shim.kubeapi.ca_file import CaFile
from dra_shim.kubeapi.token_file import TokenFile
from dranet_nri.errors import InvalidValueError

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Credentials(Protocol):
    """Source of the Authorization header of requests."""

    async def header(self) -> str:
        """Return the current header.

        Raises:
            CredentialsError: there is none.
        """

    async def renewed(self, refused: str) -> str:
        """Return a header in place of the one that the server refused, "" if there is none.

        Raises:
            CredentialsError: there is none any more.
        """


@dataclass(frozen=True, slots=True)
class RestConfig:
    """Address and credentials of an API server.

    Attributes:
        server: URL of the server.
        tls: trusted CA, and the client certificate if there is one; or the file of the CA.
        auth: source of the credentials; None without any.
    """

    server: str
    tls: ssl.SSLContext | CaFile
    auth: Credentials | None = None

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for a new connection."""
        return self.tls.context() if isinstance(self.tls, CaFile) else self.tls


def in_cluster(environ: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> RestConfig:
    """Return the configuration of this pod's service account.

    Raises:
        InvalidValueError: the process is not in a pod, or the files of the service account cannot
            be used.
    """
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "")
    token, authority = account / "token", account / "ca.crt"
    if not (host and port):
        raise InvalidValueError(
            "KUBERNETES_SERVICE_HOST and _PORT: not set, as outside of a pod; set --kubeconfig"
        )
    if not token.is_file():
        raise InvalidValueError(f"{token}: no such file; mount a service account token there")
    try:
        tls = CaFile(authority)
    except OSError as error:  # ssl.SSLError is one
        raise InvalidValueError(
            f"{authority}: no certificates: {error}; mount the cluster's ca.crt there"
        ) from error
    address = f"[{host}]" if ":" in host else host
    return RestConfig(f"https://{address}:{port}", tls, TokenFile(token))
