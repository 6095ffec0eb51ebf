"""Token file: a bearer token that is replaced about every hour."""

from collections.abc import Generator
from pathlib import Path

import httpx2

from dra_shim.kubeapi.errors import CredentialsError

Identity = tuple[int, int, int, int, int]


class TokenFile(httpx2.Auth):
    """Presents the token that a file has now.

    A kubelet puts a new token in the place of a service account's when 80 % of its life are over.
    Each request asks whether the file is another one (stat, 2 µs); it is read only then, and when
    the server does not know the token.
    """

    def __init__(self, path: Path) -> None:
        """Prepare; nothing is read before the first request."""
        self._path = path
        self._seen: Identity | None = None
        self._token = ""

    def auth_flow(
        self, request: httpx2.Request
    ) -> Generator[httpx2.Request, httpx2.Response, None]:
        """Send a request, and once more where the token that was refused is not the file's.

        Raises:
            CredentialsError: there is no token, and there was none before.
        """
        sent = self._current()
        request.headers["Authorization"] = f"Bearer {sent}"
        response = yield request
        if response.status_code != 401:
            return
        self._seen = None
        current = self._current()
        if current != sent:
            request.headers["Authorization"] = f"Bearer {current}"
            yield request

    def _current(self) -> str:
        """Return the file's token, or the last one it had where it cannot be read."""
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
        if identity == self._seen:
            return
        token = self._path.read_text(encoding="ascii").strip()
        if not token:
            raise ValueError("the file is empty")
        self._token, self._seen = token, identity
