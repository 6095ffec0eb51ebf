"""Errors of claims that cannot be allocated."""

from collections.abc import Sequence

from dranet_nri.errors import DranetError


class AllocationError(DranetError):
    """A claim cannot be allocated."""

    def __init__(self, lines: Sequence[str]) -> None:
        """Store the lines; the text joins them with "; "."""
        super().__init__("; ".join(lines))
        self._lines = tuple(lines)

    @property
    def lines(self) -> tuple[str, ...]:
        """Return one reason per line; the line of a device names it."""
        return self._lines
