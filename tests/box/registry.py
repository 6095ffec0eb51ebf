"""Registry with only the image of the tests, by the OCI distribution API."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from tests.box.image import MANIFEST, NAME, Image

PORT: Final = 5000


@contextmanager
def serving(image: Image) -> Iterator[None]:
    """Serve the image on the loopback, under its name less the registry's."""
    repository, _, tag = NAME.partition("/")[2].rpartition(":")
    pages = {"/v2/": b"", f"/v2/{repository}/manifests/{tag}": image.manifest}
    pages |= {f"/v2/{repository}/blobs/{digest}": blob for digest, blob in image.blobs.items()}

    class Pages(BaseHTTPRequestHandler):
        """Serves the pages of the image."""

        def do_GET(self) -> None:
            """Send the page, or 404."""
            page = pages.get(self.path)
            self.send_response(404 if page is None else 200)
            self.send_header("Content-Type", MANIFEST)  # of blobs nobody asks it
            self.send_header("Content-Length", str(len(page or b"")))
            self.end_headers()
            self.wfile.write(page or b"")

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", PORT), Pages) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
