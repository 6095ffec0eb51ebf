"""A file system that breaks once."""

import errno
from pathlib import Path

from dranet_nri.component.files import FileSystem


class FailingFs(FileSystem):
    """The real file system, whose n-th call stops half way."""

    def __init__(self, n: int) -> None:
        self._left = n

    @property
    def broke(self) -> bool:
        """Whether there was an n-th call."""
        return self._left <= 0

    def write(self, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
        torn = self._breaks_now()
        super().write(path, data[: len(data) // 2] if torn else data, mode, durable=durable)
        if torn:
            raise OSError(errno.ENOSPC, "torn write")

    def create(self, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
        self._break_or_go_on()
        super().create(path, data, mode, durable=durable)

    def replace(self, source: Path, target: Path) -> None:
        self._break_or_go_on()
        super().replace(source, target)

    def unlink(self, path: Path) -> None:
        self._break_or_go_on()
        super().unlink(path)

    def sync_directory(self, path: Path) -> None:
        self._break_or_go_on()
        super().sync_directory(path)

    def _breaks_now(self) -> bool:
        self._left -= 1
        return self._left == 0

    def _break_or_go_on(self) -> None:
        if self._breaks_now():
            raise OSError(errno.EIO, "injected")


class DeadFs(FailingFs):
    """The real file system until the n-th call, which stops half way; later calls do nothing."""

    def _breaks_now(self) -> bool:
        if self.broke:
            raise OSError(errno.EIO, "the process is dead")
        return super()._breaks_now()
