"""Token file: a bearer token that the kubelet replaces about every hour."""

from pathlib import Path

from dra_shim.kubeapi.errors import CredentialsError

Identity = tuple[int, int, int, int, int]


def identity_of(path: Path) -> Identity:
    """Return the identity of a file and its content; another one after a replacement.

    Raises:
        OSError: there is no such file.
    """
    status = path.stat()
    return (
        status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns, status.st_size,
    )  # fmt: skip


class TokenFile:
    """Credentials with the current token of a file.

    A kubelet replaces the token of a service account after 80 % of its lifetime. Each request
    checks by stat (2 µs) whether the file changed. The file is read if it did, and when the server
    rejects the token.
    """

    def __init__(self, path: Path) -> None:
        """Set the path; nothing is read before the first request."""
        self._path = path
        self._identity: Identity | None = None
        self._token = ""

    async def header(self) -> str:
        """Return the header with the file's token, or the last one if the file cannot be read.

        Raises:
            CredentialsError: no token was ever read.
        """
        return self._current()

    async def renewed(self, refused: str) -> str:
        """Read the file again; return "" if it still has the refused token."""
        self._identity = None
        current = self._current()
        return "" if current == refused else current

    def _current(self) -> str:
        try:
            self._refresh()
        except (OSError, ValueError) as error:
            if not self._token:
                raise CredentialsError(f"{self._path}: no token: {error}") from error
        return f"Bearer {self._token}"

    def _refresh(self) -> None:
        identity = identity_of(self._path)
        if identity == self._identity:
            return
        token = self._path.read_text(encoding="ascii").strip()
        if not token:
            raise ValueError("the file is empty")
        self._token, self._identity = token, identity
