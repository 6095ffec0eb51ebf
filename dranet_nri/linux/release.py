"""Release of a kernel, for what no request shows."""

import re
from typing import Final

_RELEASE: Final = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})")


def release(text: str) -> tuple[int, int]:
    """Return major and minor of a kernel release ("6.18.2-amd64"), (0, 0) for other text."""
    found = _RELEASE.match(text)
    return (int(found[1]), int(found[2])) if found else (0, 0)
