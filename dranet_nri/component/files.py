"""Atomic file writes, so that readers get the old or the new content; and reads of such files.

Rules:
1. A writer stages a hidden file beside the target and renames it. Readers skip names that
   start with a dot; a staged name does not end in .json or .yaml. A new file can be linked from a
   complete file without a name (O_TMPFILE) instead.
2. A target has one writer at a time.
3. A reader checks the file that it opened, not the directory entry.
4. Only a periodic file is overwritten in place, and only if the file system is full.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EACCES, EEXIST, EINVAL, ELOOP, ENOENT, ENOSYS, EOPNOTSUPP, EPERM, EXDEV
from io import FileIO
from pathlib import Path
from typing import Final

from dranet_nri.errors import StateCorruptError

STAGED_SUFFIX: Final = ".new"
RECORD_MODE: Final = 0o640
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NAMELESS: Final = os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC
# The path exists; the file system has no files without a name, or no links; procfs is absent or
# without links; or a security module refuses.
_CANNOT_CREATE: Final = frozenset(
    {EEXIST, EOPNOTSUPP, ENOSYS, EINVAL, EXDEV, ENOENT, ELOOP, EPERM, EACCES}
)
_OVERWRITE: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_KEPT: Final = 64  # descriptors, if an attach or a restore does not end
_REPLACED_TRIES: Final = 100  # a writer would have to rename between open and fstat each time


class FileSystem:
    """The calls that change a file system, so that a test can fail each in turn."""

    def write(self, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
        """Create path, which must not exist, with data and mode; fsync it if durable.

        The mode does not depend on the umask.
        """
        descriptor = os.open(path, _CREATE, mode)
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            os.fchmod(descriptor, mode)
            _write(file, data)
            if durable:
                os.fsync(descriptor)

    def create(self, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
        """Create path, which must not exist, with all of data and mode at once; see write.

        Raises:
            OSError: the path exists, or the write failed; an errno in _CANNOT_CREATE: it may be
                possible to write and rename a staged file.
        """
        descriptor = os.open(path.parent, _NAMELESS, mode)
        try:
            os.fchmod(descriptor, mode)
            with os.fdopen(descriptor, "wb", buffering=0, closefd=False) as file:
                _write(file, data)
            if durable:
                os.fsync(descriptor)
            _link(descriptor, path)
            if durable:  # again, because btrfs does not log a file without a link
                os.fsync(descriptor)
        finally:
            self._release(descriptor)

    def overwrite(self, path: Path, data: bytes) -> None:
        """Overwrite the beginning of path, which must exist; readers may get half of it."""
        with os.fdopen(os.open(path, _OVERWRITE), "wb", buffering=0) as file:
            _write(file, data)

    def replace(self, source: Path, target: Path) -> None:
        """Rename source over target."""
        source.replace(target)

    def unlink(self, path: Path) -> None:
        """Remove path if it exists."""
        path.unlink(missing_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Make the entries of a directory durable."""
        descriptor = os.open(path, _DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def freed_later(self) -> Iterator[None]:
        """Free what is created, replaced or removed meanwhile at the end, where supported."""
        yield

    def _release(self, descriptor: int) -> None:
        """Close the descriptor of a created file."""
        os.close(descriptor)


class DeferredFileSystem(FileSystem):
    """File system that frees files and directory entries later, not while a device moves.

    Freeing an inode or a directory entry queues an RCU callback. A device that moves to another
    network namespace up to 8 ms after would wait one more grace period for it, 4 ms (rcu_barrier in
    __dev_change_net_namespace, net/core/dev.c). An open descriptor delays it. A lookup of an absent
    file on tmpfs or procfs frees an entry in the same way, so hooks look up no absent file before a
    move; and so does a rename to a new name, so a new file is linked, not renamed. Thread-safe.
    """

    def __init__(self) -> None:
        """Prepare."""
        self._kept: list[int] = []
        self._users = 0

    def replace(self, source: Path, target: Path) -> None:
        """See FileSystem."""
        self._keep(target)
        super().replace(source, target)

    def unlink(self, path: Path) -> None:
        """See FileSystem."""
        self._keep(path)
        super().unlink(path)

    @contextmanager
    def freed_later(self) -> Iterator[None]:
        """See FileSystem. To be used on one thread."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self._free()

    def _keep(self, path: Path) -> None:
        if self._users:
            with suppress(OSError):  # it does not exist
                self._release(os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC))

    def _release(self, descriptor: int) -> None:
        if len(self._kept) >= _MAX_KEPT:
            self._free()
        self._kept.append(descriptor)
        if not self._users:  # or another thread ended the restore meanwhile
            self._free()

    def _free(self) -> None:
        while self._kept:
            with suppress(IndexError):  # another thread frees, too
                os.close(self._kept.pop())


def _link(descriptor: int, path: Path) -> None:
    """Link an open file, which has no name, to path."""
    try:
        # With a directory, Python follows the link in procfs, as linkat(2) describes it.
        os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _write(file: FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def save(
    fs: FileSystem,
    path: Path,
    data: bytes,
    *,
    durable: bool = True,
    mode: int = RECORD_MODE,
    new: bool = False,
) -> None:
    """Write data to path atomically: path always has the old bytes or the new.

    Args:
        durable: survive a power loss after the return; pass False on tmpfs.
        new: the path probably does not exist; then no file is freed.

    Raises:
        OSError: the write failed; path has either content, and no staged file is left.
    """
    if not (new and _created(fs, path, data, mode, durable=durable)):
        staged = path.with_name(f".{path.name}{STAGED_SUFFIX}")
        try:
            _stage(fs, staged, data, mode, durable=durable)
            fs.replace(staged, path)
        except BaseException:
            with suppress(OSError):
                fs.unlink(staged)
            raise
    if durable:
        fs.sync_directory(path.parent)


def _created(fs: FileSystem, path: Path, data: bytes, mode: int, *, durable: bool) -> bool:
    """Create path; False if it exists or the node does not allow it."""
    try:
        fs.create(path, data, mode, durable=durable)
    except OSError as error:
        if error.errno in _CANNOT_CREATE:
            return False
        raise
    return True


def _stage(fs: FileSystem, staged: Path, data: bytes, mode: int, *, durable: bool) -> None:
    """Write the staged file, in place of one that a crash left.

    Such a file is not looked up before, because a failed lookup delays a move; see
    DeferredFileSystem.
    """
    try:
        fs.write(staged, data, mode, durable=durable)
    except FileExistsError:
        fs.unlink(staged)
        fs.write(staged, data, mode, durable=durable)


def remove(fs: FileSystem, path: Path, *, durable: bool = True) -> None:
    """Remove path if it exists.

    Raises:
        OSError: the removal failed; another call completes it.
    """
    fs.unlink(path)
    if durable:
        fs.sync_directory(path.parent)


def remove_staged(fs: FileSystem, directory: Path, prefix: str = "") -> None:
    """Remove staged files that a crash left, of targets whose names start with prefix.

    Raises:
        FileNotFoundError: the directory does not exist.
        OSError: a file cannot be removed.
    """
    for entry in directory.iterdir():
        if entry.name.startswith(f".{prefix}") and entry.name.endswith(STAGED_SUFFIX):
            fs.unlink(entry)


def read_record_bytes(directory: int, name: str, limit: int, owner: int | None = None) -> bytes:
    """Return the content of a plain file that another process wrote.

    Args:
        directory: descriptor of the directory.
        name: entry in the directory, not a path.
        limit: largest size to accept, in bytes.
        owner: uid that must own the file; None for any.

    Raises:
        StateCorruptError: this package's writer did not write the file.
        FileNotFoundError: the entry does not exist.
        OSError: the file cannot be read now.
    """
    for _ in range(_REPLACED_TRIES):
        descriptor = _open(directory, name)
        try:
            status = os.fstat(descriptor)
            if stat.S_ISREG(status.st_mode) and status.st_nlink == 0:
                continue  # replaced or removed since it was opened
            _check(name, status, limit, owner)
            return _read(descriptor, name, limit)
        finally:
            os.close(descriptor)
    raise OSError(errno.EAGAIN, "replaced faster than it could be read", name)


def read_file(path: Path, limit: int) -> bytes:
    """Return the content of a plain file by its path, with the checks of read_record_bytes.

    Raises:
        StateCorruptError: this package's writer did not write the file.
        FileNotFoundError: the file or its directory does not exist.
        OSError: the file cannot be read now.
    """
    directory = os.open(path.parent, _DIRECTORY)
    try:
        return read_record_bytes(directory, path.name, limit)
    finally:
        os.close(directory)


def _open(directory: int, name: str) -> int:
    try:
        return os.open(name, _OPEN, dir_fd=directory)
    except OSError as cause:
        match cause.errno:
            case errno.ELOOP:
                raise StateCorruptError(f"{name}: is a symbolic link, must be a file") from None
            case errno.ENXIO:
                raise StateCorruptError(f"{name}: is a socket, must be a file") from None
        raise


def _check(name: str, status: os.stat_result, limit: int, owner: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise StateCorruptError(f"{name}: is no regular file ({stat.filemode(status.st_mode)})")
    if status.st_nlink != 1:
        raise StateCorruptError(f"{name}: has {status.st_nlink} hard links, must have one")
    if owner is not None and status.st_uid != owner:
        raise StateCorruptError(f"{name}: belongs to uid {status.st_uid}, must be {owner}")
    if status.st_size > limit:
        raise StateCorruptError(f"{name}: {status.st_size} bytes, at most {limit}")


def _read(descriptor: int, name: str, limit: int) -> bytes:
    data = bytearray()
    while len(data) <= limit:
        piece = os.read(descriptor, limit + 1 - len(data))
        if not piece:
            return bytes(data)
        data += piece
    raise StateCorruptError(f"{name}: grew above {limit} bytes while it was read")
