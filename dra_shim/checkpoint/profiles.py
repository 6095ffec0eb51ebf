"""Profile records: profiles that a provider assigned to claims, until they are released.

Rules:
1. A record is written before the request to the provider, and removed after the provider confirmed
   the release. So after a crash no assigned profile lacks a record.
2. A record whose claim has no allocation record is due for release.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from dra_shim.cloud.provider import ProviderDeviceId
from dranet_nri.component.files import FileSystem, read_file, remove, save
from dranet_nri.errors import StateCorruptError
from dranet_nri.model import ObjectRef, parse_uid
from dranet_nri.state.json_codec import Codec, CodecError, codec_of, json_object

MAX_RECORD: Final = 1 << 20  # bytes
_SUFFIX: Final = ".json"


@dataclass(frozen=True, slots=True)
class ProfileUse:
    """Profile of one device.

    Attributes:
        config: JSON of the parameters in the request.
        answer: JSON of the parameters in the response, "" before it.
    """

    device: ProviderDeviceId
    profile: str
    config: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class ProfileRecord:
    """Profiles of one claim."""

    claim: ObjectRef
    uses: tuple[ProfileUse, ...] = ()

    def use(self, device: str, profile: str) -> ProfileUse | None:
        """Return the profile of a device, None if there is none."""
        return next(
            (use for use in self.uses if (use.device.name, use.profile) == (device, profile)), None
        )

    def with_use(self, use: ProfileUse) -> "ProfileRecord":
        """Return the record with this profile added or, for the same device and name, replaced."""
        others = [
            other for other in self.uses if other is not self.use(use.device.name, use.profile)
        ]
        return ProfileRecord(self.claim, (*others, use))


_CODEC: Final[Codec] = codec_of(ProfileRecord, {})


class ProfileStore:
    """Directory of profile records, for one thread at a time."""

    def __init__(self, directory: Path) -> None:
        """Set the directory; it is created with the first record."""
        self._directory = directory
        self._fs = FileSystem()

    def claims(self) -> tuple[str, ...]:
        """Return the UIDs of the claims that have a record.

        Raises:
            OSError: the directory cannot be read.
        """
        try:
            names = sorted(path.name for path in self._directory.iterdir())
        except FileNotFoundError:
            return ()
        return tuple(
            name.removesuffix(_SUFFIX)
            for name in names
            if name.endswith(_SUFFIX) and not name.startswith(".")
        )

    def get(self, uid: str) -> ProfileRecord | None:
        """Return the record of a claim, None if there is none.

        Raises:
            StateCorruptError: the file is not a valid record.
            OSError: the file cannot be read.
        """
        path = self._path(uid)
        try:
            return _decoded(path.name, read_file(path, MAX_RECORD))
        except FileNotFoundError:
            return None

    def put(self, record: ProfileRecord) -> None:
        """Write a record, durably.

        Raises:
            OSError: the file cannot be written.
        """
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        body = cast("Mapping[str, object]", _CODEC.to_json(record))
        save(self._fs, self._path(record.claim.uid), json.dumps({"version": 1, **body}).encode())

    def remove(self, uid: str) -> None:
        """Remove the record of a claim, if there is one.

        Raises:
            OSError: the file cannot be removed.
        """
        if self._directory.is_dir():
            remove(self._fs, self._path(uid))

    def _path(self, uid: str) -> Path:
        return self._directory / f"{parse_uid(uid)}{_SUFFIX}"


def _decoded(name: str, data: bytes) -> ProfileRecord:
    try:
        document = json.loads(data.decode(), object_pairs_hook=json_object)
        if not isinstance(document, dict) or document.pop("version", None) != 1:
            raise StateCorruptError(f"{name}: is not a profile record of version 1")
        return cast("ProfileRecord", _CODEC.from_json(document))
    except (ValueError, RecursionError, CodecError) as error:
        raise StateCorruptError(f"{name}: {error}") from None
