"""Token file: a bearer token that is replaced about every hour."""

from collections.abc import Generator
from pathlib import Path

import httpx2

from dra_shim.kubeapi.errors import CredentialsError

Identity = tuple[int, int, int, int, int]


class TokenFile(httpx2.Auth):
    """Sends the current token of a file.

    A kubelet replaces the token of a service account after 80 % of its lifetime. Each request
    checks by stat (2 µs) whether the file changed; the file is read only then, and when the server
    rejects the token.
    """

    def __init__(self, path: Path) -> None:
        """Set the path; nothing is read before the first request."""
        self._path = path
        self._identity: Identity | None = None
        self._token = ""

    def auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send a request, and once more if the rejected token is not that of the file.

        Raises:
            CredentialsError: there is no token, and never was.
        """
        sent = self._current()
        request.headers["Authorization"] = f"Bearer {sent}"
        response = yield request
        if response.status_code != 401:
            return
        self._identity = None
        current = self._current()
        if current != sent:
            request.headers["Authorization"] = f"Bearer {current}"
            yield request

    def _current(self) -> str:
        """Return the file's token, or the last one if the file cannot be read."""
        try:
            self._refresh()
        except (OSError, ValueError) as error:
            if not self._token:
                raise CredentialsError(f"{self._path}: no token: {error}") from error
        return self._token

    def _refresh(self) -> None:
        status = self._path.stat()
        identity = (
            status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size,
        )  # fmt: skip
        if identity == self._identity:
            return
        token = self._path.read_text(encoding="ascii").strip()
        if not token:
            raise ValueError("the file is empty")
        self._token, self._identity = token, identity
