"""CA file: certificates of the API server's CA, which the kubelet replaces after a rotation."""

import ssl
from contextlib import suppress
from pathlib import Path

from dra_shim.kubeapi.token_file import identity_of


class CaFile:
    """TLS contexts with the current certificates of a file.

    Each request checks by stat (2 µs) whether the file changed. A new context has only the new
    certificates, so that a removed CA is no longer trusted. It is used for new connections.
    """

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            OSError: it has no certificates.
        """
        self._path = path
        self._identity = identity_of(path)
        self._context = ssl.create_default_context(cafile=path)

    def context(self) -> ssl.SSLContext:
        """Return a context with the file's certificates, or the last one if it has none."""
        with suppress(OSError):  # ssl.SSLError is one
            identity = identity_of(self._path)
            if identity != self._identity:
                self._context = ssl.create_default_context(cafile=self._path)
                self._identity = identity
        return self._context
