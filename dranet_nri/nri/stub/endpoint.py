"""Plugin endpoint: name and index of the plugin, and the runtime's socket."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dranet_nri.errors import InvalidValueError

DEFAULT_PATH: Final = "/var/run/nri/nri.sock"
MAX_PATH: Final = 107  # sun_path of unix(7), without the final NUL

_NAME: Final = re.compile(r"[A-Za-z0-9_.+-]+")
_IDX: Final = re.compile(r"[0-9]{2}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Identity of a plugin at one runtime.

    Attributes:
        name, idx: plugin name and its two-digit index; lower ones are called first.
        path: the runtime's socket.
        fd: the socket inherited from the runtime that launched the plugin, None to connect. The
            plugin ends with it.
    """

    name: str
    idx: str
    path: str = DEFAULT_PATH
    fd: int | None = None

    def __post_init__(self) -> None:
        """Check what runtimes check.

        Raises:
            InvalidValueError: name, idx or path is invalid.
        """
        if not _NAME.fullmatch(self.name):
            raise InvalidValueError(f"plugin name {self.name!r}: use letters, digits and _ . + -")
        if not _IDX.fullmatch(self.idx):
            raise InvalidValueError(f"plugin index {self.idx!r}: must be two digits")
        if len(self.path.encode()) > MAX_PATH:
            raise InvalidValueError(f"socket path {self.path!r}: longer than {MAX_PATH} bytes")


def endpoint_from_environ(environ: Mapping[str, str], default: Endpoint) -> Endpoint:
    """Return the endpoint of a plugin that the runtime launched, else the default.

    A runtime passes socket and identity in NRI_PLUGIN_SOCKET, NRI_PLUGIN_NAME and NRI_PLUGIN_IDX.

    Raises:
        InvalidValueError: NRI_PLUGIN_SOCKET is set, and a variable is invalid.
    """
    number = environ.get("NRI_PLUGIN_SOCKET")
    if number is None:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", number):
        raise InvalidValueError(f"NRI_PLUGIN_SOCKET {number!r}: must be a file descriptor")
    name = environ.get("NRI_PLUGIN_NAME", "")
    idx = environ.get("NRI_PLUGIN_IDX", "")
    return Endpoint(name, idx, default.path, int(number))
