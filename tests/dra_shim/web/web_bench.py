"""A web server under test, with the notices that it sends."""

import asyncio

from dra_shim.web import Notice, PageFailed, ServerListening


class WebNotices:
    """Takes the notices of one server.

    Attributes:
        listening: where it listens, once it does.
        failed: the pages that could not be made.
    """

    def __init__(self) -> None:
        """Wait for them; needs a running loop."""
        self.listening: asyncio.Future[ServerListening] = asyncio.get_running_loop().create_future()
        self.failed: list[PageFailed] = []

    def __call__(self, notice: Notice) -> None:
        """Take one."""
        if isinstance(notice, ServerListening):
            self.listening.set_result(notice)
        else:
            self.failed.append(notice)
