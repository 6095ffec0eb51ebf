"""Kubeconfig access, read by lightkube, which verifies the server and runs credential plugins."""

from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
from lightkube.config.client_adapter import ExecAuth, user_auth, verify_cluster
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from dra_shim.kubeapi.errors import CredentialsError
from dra_shim.kubeapi.rest_config import RestConfig
from dra_shim.kubeapi.token_file import TokenFile
from dranet_nri.errors import InvalidValueError


def from_kubeconfig(path: Path, context: str = "") -> RestConfig:
    """Return the access of a kubeconfig.

    Args:
        path: the file.
        context: name of the context, "" for the current one.

    Raises:
        InvalidValueError: the file is not a kubeconfig, has no such context, or its credentials
            cannot be used.
    """
    config = _read(path, context)
    user = config.user or User()
    try:
        tls = verify_cluster(config.cluster, user, config.abs_file)
        auth = _auth_of(user, config)
    except (OSError, ValueError, TypeError, ConfigError) as error:
        raise InvalidValueError(
            f"--kubeconfig {path}: certificates or credentials cannot be used: {error}"
        ) from error
    return RestConfig(config.cluster.server, tls, auth)


def _read(path: Path, context: str) -> SingleConfig:
    try:
        chosen = KubeConfig.from_file(path).get(context or None)
    except ConfigError as error:
        raise InvalidValueError(f"--kubeconfig {path}: {error}") from error
    except Exception as error:  # any error of the library is caused by the file
        raise InvalidValueError(f"--kubeconfig {path}: not a kubeconfig: {error!r}") from error
    assert chosen is not None, "without a default there is a context or an error"
    return chosen


def _auth_of(user: User, config: SingleConfig) -> httpx2.Auth | None:
    if user.token_file is not None:
        return TokenFile(Path(config.abs_file(user.token_file)))
    if user.token is None and user.exec:
        return _Plugin(user.exec)
    return user_auth(user)


class _Plugin(ExecAuth):
    """Token of a credential plugin, requested again when the server rejects it."""

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token.

        Raises:
            CredentialsError: the plugin returns no token.
        """
        flow = super().async_auth_flow(request)
        try:
            sent = await anext(flow)
            while True:
                sent = await flow.asend((yield sent))
        except StopAsyncIteration:
            return
        except (ConfigError, OSError, ValueError, LookupError, TypeError) as error:
            raise CredentialsError(f"the kubeconfig's credential plugin: {error!r}") from error
