"""REST configuration from a kubeconfig; lightkube reads it and runs credential plugins."""

from contextlib import aclosing
from pathlib import Path

import httpx2
from lightkube.config.client_adapter import user_auth, verify_cluster
from lightkube.config.kubeconfig import KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from dra_shim.kubeapi.errors import CredentialsError
from dra_shim.kubeapi.rest_config import Credentials, RestConfig
from dra_shim.kubeapi.token_file import TokenFile
from dranet_nri.errors import InvalidValueError, os_error_text


def from_kubeconfig(path: Path, context: str = "") -> RestConfig:
    """Return the REST configuration of a kubeconfig.

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
        path.expanduser().read_bytes()  # the library reports a directory as missing
        chosen = KubeConfig.from_file(path).get(context or None)
    except ConfigError as error:
        raise InvalidValueError(f"--kubeconfig {path}: {error}") from error
    except UnicodeDecodeError as error:  # its repr has the content of the file
        reason = f"is not UTF-8 at byte {error.start}; save it as UTF-8"
        raise InvalidValueError(f"--kubeconfig {path}: {reason}") from None
    except OSError as error:
        raise InvalidValueError(f"--kubeconfig {os_error_text(error)}") from error
    except Exception as error:  # any error of the library is caused by the file
        raise InvalidValueError(f"--kubeconfig {path}: not a kubeconfig: {error!r}") from error
    assert chosen is not None, "without a default there is a context or an error"
    return chosen


def _auth_of(user: User, config: SingleConfig) -> Credentials | None:
    if user.token_file is not None:
        return TokenFile(Path(config.abs_file(user.token_file)))
    auth = user_auth(user)
    return None if auth is None else _UserCredentials(auth)


class _UserCredentials:
    """Credentials of a kubeconfig's user: lightkube sets the header of a request."""

    def __init__(self, auth: httpx2.Auth) -> None:
        self._auth = auth
        self._header = ""  # cached, because lightkube takes 0.1 ms to set it

    async def header(self) -> str:
        """Return the header; a credential plugin runs at the first call.

        Raises:
            CredentialsError: the plugin returns no token.
        """
        if not self._header:
            self._header = await self._header_after()
        return self._header

    async def renewed(self, refused: str) -> str:
        """Run a credential plugin again; other credentials do not change."""
        current = await self._header_after(httpx2.Response(401))
        if current in ("", refused):
            return ""
        self._header = current
        return current

    async def _header_after(self, *responses: httpx2.Response) -> str:
        """Return the header that lightkube sets after these responses, "" if there is none."""
        request = httpx2.Request("GET", "https://server/")
        try:
            async with aclosing(self._auth.async_auth_flow(request)) as flow:
                request = await anext(flow)
                for response in responses:
                    request = await flow.asend(response)
        except StopAsyncIteration:
            return ""
        except (ConfigError, OSError, ValueError, LookupError, TypeError) as error:
            raise CredentialsError(f"the kubeconfig's credential plugin: {error!r}") from error
        return request.headers["Authorization"]
