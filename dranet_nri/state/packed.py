"""A record that is too long for its file, packed into one that fits.

A reader that knows no packed records takes no file above MAX_FILE: it would call a longer one
corrupt and move it aside. So the file stays below, under a version that such a reader refuses and
leaves where it is, with the names by which it gives the devices to no other pod.
"""

import json
import zlib
from base64 import b64decode, b64encode
from binascii import Error
from typing import Final

from dranet_nri.errors import StateCorruptError
from dranet_nri.model import Attachment

ENVELOPE: Final = 4  # a version that no reader without this knows; what is packed has its own
MAX_FILE: Final = 64 << 10  # bytes of a record's file
MAX_PACKED: Final = 256 << 10  # bytes of a record that is packed into one

_LEVEL: Final = 6  # 256 KiB take 3 to 10 ms


def pack(attachment: Attachment, data: bytes) -> bytes:
    """Return the file of an attachment whose record is data; it may be too long as well."""
    envelope = {
        "version": ENVELOPE,
        "kind": type(attachment).__name__,
        "pod": {"uid": attachment.pod.uid},
        "devices": [
            {"device": {"name": each.device.name}, "shareId": each.share_id, "home": each.home}
            for each in attachment.devices
        ],
        "packed": b64encode(zlib.compress(data, _LEVEL)).decode(),
    }
    return json.dumps(envelope, separators=(",", ":")).encode()


def unpack(packed: object) -> bytes:
    """Return the record that is packed.

    Raises:
        StateCorruptError: none is, or one above MAX_PACKED.
    """
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(b64decode(str(packed), validate=True), MAX_PACKED)
    except (Error, ValueError, zlib.error) as cause:
        raise StateCorruptError(f"$.packed: {cause}") from None
    if not unpacking.eof or unpacking.unused_data:
        raise StateCorruptError(f"$.packed: torn, or above {MAX_PACKED} bytes")
    return data
