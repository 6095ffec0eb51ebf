"""Where the API server is and who we are there: the pod's service account, or a kubeconfig.

The library reads kubeconfigs, verifies the server and presents tokens. A service account's token
is read anew from its file when the server no longer takes the one we have.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import httpx2
from lightkube.config.client_adapter import AsyncClient, ConnectionParams
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import Cluster, User
from lightkube.core.exceptions import ConfigError as AccessConfigError

from dranet_nri.errors import InvalidValueError

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CONNECT_S: Final = 10.0
READ_S: Final = 30.0  # without a byte; a watch has its own
AGENT: Final = "dra-shim"


def access_of(kubeconfig: Path | None, environ: Mapping[str, str]) -> SingleConfig:
    """Return the access that a kubeconfig gives, or without one that of the pod we are in.

    Raises:
        InvalidValueError: there is none, or it cannot be used.
    """
    return from_kubeconfig(kubeconfig) if kubeconfig else in_cluster(environ)


def in_cluster(environ: Mapping[str, str], account: Path = SERVICE_ACCOUNT) -> SingleConfig:
    """Return the access that the kubelet gives a pod.

    Raises:
        InvalidValueError: this is no pod, or one without a service account's token.
    """
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "")
    token = account / "token"
    if not (host and port):
        raise InvalidValueError(
            "KUBERNETES_SERVICE_HOST and _PORT: not set, so this is no pod; give --kubeconfig"
        )
    if not token.is_file():
        raise InvalidValueError(f"{token}: no such file; mount a service account token there")
    address = f"[{host}]" if ":" in host else host
    cluster = Cluster(
        server=f"https://{address}:{port}", certificate_auth=str(account / "ca.crt")
    )  # fmt: skip
    return _checked(KubeConfig.from_one(cluster=cluster, user=User(token_file=str(token))))


def from_kubeconfig(path: Path, context: str = "") -> SingleConfig:
    """Return the access that a kubeconfig gives.

    Args:
        path: the file.
        context: of the file, "" for its current one.

    Raises:
        InvalidValueError: it is no kubeconfig, or the context is not in it.
    """
    try:
        return _checked(KubeConfig.from_file(path), context)
    except AccessConfigError as error:
        raise InvalidValueError(f"--kubeconfig {path}: {error}") from error
    except Exception as error:  # whatever the library trips over is the file's fault
        raise InvalidValueError(f"--kubeconfig {path}: not a kubeconfig: {error!r}") from error


def connect(config: SingleConfig) -> httpx2.AsyncClient:
    """Return a client of the server; nothing is opened yet.

    Raises:
        InvalidValueError: certificates that the configuration names cannot be used.
    """
    timeout = httpx2.Timeout(READ_S, connect=CONNECT_S)
    try:
        client = AsyncClient(config, ConnectionParams(timeout=timeout))
    except (OSError, ValueError, httpx2.InvalidURL, AccessConfigError) as error:
        raise InvalidValueError(
            f"{config.cluster.server}: certificates or credentials cannot be used: {error}"
        ) from error
    if not client.base_url.host or client.base_url.scheme not in ("http", "https"):
        raise InvalidValueError(f"{config.cluster.server}: the server must be an http(s):// URL")
    client.headers["User-Agent"] = AGENT
    return client


def _checked(config: KubeConfig, context: str = "") -> SingleConfig:
    chosen = config.get(context or None)
    assert chosen is not None, "without a default there is a context or an error"
    return chosen if chosen.user else chosen._replace(user=User())
