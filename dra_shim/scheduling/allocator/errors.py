"""Errors of claims that cannot be met."""

from collections.abc import Sequence

from dranet_nri.errors import DranetError


class AllocationError(DranetError):
    """Some claim cannot be met."""

    def __init__(self, lines: Sequence[str]) -> None:
        """Keep every line; the text joins them with "; "."""
        super().__init__("; ".join(lines))
        self._lines = tuple(lines)

    @property
    def lines(self) -> tuple[str, ...]:
        """Return one reason each; a device's line names the device."""
        return self._lines
