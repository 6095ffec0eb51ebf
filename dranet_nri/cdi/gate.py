"""Gate: writes and removes the CDI spec without which containers cannot start, and metadata files.

Rules:
1. Opening writes metadata first, the spec last. Closing removes the spec first.
2. All files are on tmpfs, so that a reboot closes every gate.
3. To open an open gate again rewrites only changed files.
4. The next start of the plugin removes the files of a crash, by names that only this plugin uses.
"""

import os
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dranet_nri.cdi.edits import EditOptions
from dranet_nri.cdi.metadata import metadata
from dranet_nri.cdi.names import gated_requests, metadata_source
from dranet_nri.cdi.spec import cdi_spec
from dranet_nri.component.files import FileSystem, remove, remove_staged, save
from dranet_nri.model import DRIVER_NAME, Allocation, Attachment
from dranet_nri.plan.refusals import described

_PREFIX: Final = f"{DRIVER_NAME}-"  # of specs; other drivers share the directory
READABLE: Final = 0o644  # a non-root container reads its metadata, the runtime the spec


@dataclass(frozen=True, slots=True)
class Gate:
    """Directories of the gate.

    Attributes:
        cdi_dir: a directory of CDI specs that the runtime reads.
        metadata_dir: the plugin's directory of metadata files, at the same path on the host.
    """

    fs: FileSystem
    cdi_dir: Path
    metadata_dir: Path

    def spec_path(self, claim_uid: str) -> Path:
        """Return the path of the claim's CDI spec."""
        return self.cdi_dir / f"{_PREFIX}{claim_uid}.json"

    def open(self, allocation: Allocation, attachment: Attachment, options: EditOptions) -> bool:
        """Write the claim's files; none for adminAccess only.

        Returns:
            Whether the gate was closed.

        Raises:
            OSError: a file cannot be written; the gate stays closed.
        """
        directory = str(self.metadata_dir)
        requests = gated_requests(allocation)
        if not requests:
            return False  # a CDI spec without devices is invalid
        uid = allocation.claim.uid
        for request in requests:
            source = Path(metadata_source(directory, uid, request))
            self._write(source, metadata(allocation, attachment, request))
        spec, path = cdi_spec(allocation, attachment, directory, options), self.spec_path(uid)
        closed = not path.exists()
        self._write(path, spec)
        return closed

    def is_open(self, allocation: Allocation) -> bool:
        """Whether the claim's containers may start; True for adminAccess only."""
        return not gated_requests(allocation) or self.spec_path(allocation.claim.uid).exists()

    def close(self, claim_uid: str) -> None:
        """Remove the claim's spec. Idempotent.

        Raises:
            OSError: the spec cannot be removed.
        """
        spec = self.spec_path(claim_uid)
        with suppress(FileNotFoundError):  # a directory is created with its first file
            # Listed, because a failed lookup delays a move; see DeferredFileSystem.
            if spec.name in os.listdir(self.cdi_dir):  # noqa: PTH208 - pathlib takes longer
                remove(self.fs, spec, durable=False)

    def remove_metadata(self, claim_uid: str) -> None:
        """Remove the metadata files of a closed gate. Idempotent.

        Not part of closing, which precedes the move of a device; see DeferredFileSystem.
        """
        shutil.rmtree(self.metadata_dir / claim_uid, ignore_errors=True)

    def remove(self, claim_uid: str) -> None:
        """Remove all files of the claim. Idempotent.

        Raises:
            OSError: the spec cannot be removed.
        """
        self.close(claim_uid)
        self.remove_metadata(claim_uid)

    def try_close(self, claim_uid: str) -> str:
        """Remove the claim's spec; return the error, "" on success."""
        try:
            self.close(claim_uid)
        except OSError as error:
            return described(error)
        return ""

    def clear(self, attached: Collection[str]) -> None:
        """Remove files of a crash: staged files, and files of claims that are not attached.

        Args:
            attached: UIDs of the claims that have a device in a pod, or may have one.

        Raises:
            OSError: a file cannot be removed.
        """
        with suppress(FileNotFoundError):  # a directory is created with its first file
            remove_staged(self.fs, self.cdi_dir, prefix=_PREFIX)
        recorded = {path.name for path in self.metadata_dir.glob("*")}
        for claim_uid in sorted((recorded | set(self.claims())) - set(attached)):
            self.remove(claim_uid)
        for directory in self.metadata_dir.glob("*/*/"):
            remove_staged(self.fs, directory)

    def claims(self) -> tuple[str, ...]:
        """Return the UIDs of the claims with an open gate."""
        specs = self.cdi_dir.glob(f"{_PREFIX}*.json")
        return tuple(sorted(path.stem.removeprefix(_PREFIX) for path in specs))

    def _write(self, path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.read_bytes() == content:
            return
        save(self.fs, path, content, mode=READABLE, durable=False)
