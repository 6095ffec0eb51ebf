"""Fields of dranet's parameters that this version does not apply.

They are checked by dranet's rules first, so that the user gets every violation at once, and then
refused. A value that only states the default is accepted, because it changes nothing.
"""

from typing import Final

from dranet_nri.config.json_cursor import Fields

REFUSED_INTERFACE: Final = ("disableEbpfPrograms",)

_NOT_SUPPORTED: Final = "not supported by this version; remove it"


def check_interface(fields: Fields) -> None:
    """Check and refuse fields of `interface`."""
    for name in REFUSED_INTERFACE:
        if name in fields and fields[name].boolean():
            fields[name].complain(_NOT_SUPPORTED)
