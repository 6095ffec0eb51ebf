"""Runtime quirks: differences between container runtimes, by reported name and version."""

import re
from typing import Final

_VERSION: Final = re.compile(r"v?(\d+)\.(\d+)\.(\d+)(?:[-~](?:alpha|beta|rc))?")
_FIRST_FIXED: Final = {(2, 2): 6, (2, 3): 3}  # patch release of containerd, per minor one


def forgets_rejected_sandboxes(name: str, version: str) -> bool:
    """Return whether the runtime keeps no record of a rejected sandbox.

    containerd 2 before 2.2.6 and 2.3.3 keeps one. The kubelet's next sandbox has the same name, and
    with two records of one name containerd does not start again (containerd issue 13609). Version
    1.7 keeps none. False for an unknown runtime or version.
    """
    if name == "cri-o":
        return True
    found = _VERSION.match(version)
    if name != "containerd" or found is None:
        return False
    major, minor, patch = (int(number) for number in found.groups())
    if (major, minor) in _FIRST_FIXED:
        released = found[0][-1].isdigit()
        return patch > _FIRST_FIXED[major, minor] - released
    return (major, minor) < (2, 0) or (major, minor) > max(_FIRST_FIXED)
