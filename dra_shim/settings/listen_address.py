"""Listen address of the shim's HTTP server."""

import re
from dataclasses import dataclass

from dranet_nri.errors import InvalidValueError


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Listen address; host "" means all addresses of the node."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return the value for --bind-address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> ListenAddress:
    """Parse HOST:PORT; the host is optional, and an IPv6 host is in brackets.

    Raises:
        InvalidValueError: the text is not an address.
    """
    found = re.fullmatch(r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^:\[\]]*)):([0-9]{1,5})", text)
    if found is None or int(found[3]) > 65535:
        raise InvalidValueError(f"--bind-address {text[:60]!r}: must be HOST:PORT, as in ':9177'")
    return ListenAddress(found[1] or found[2] or "", int(found[3]))
