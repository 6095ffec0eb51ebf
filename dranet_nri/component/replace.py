"""Replacement of fields of a dataclass, as `dataclasses.replace` in a tenth of its steps.

dataclasses.replace handles each field in Python, and a hook replaces fields of some 25 objects.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import replace as replace  # so that mypy checks the names and types of fields
else:
    from collections.abc import Callable
    from dataclasses import fields
    from functools import cache
    from operator import attrgetter
    from typing import TypeVar

    T = TypeVar("T")

    def replace(value: T, /, **changes: object) -> T:
        """Return a copy of a dataclass with new values of some fields.

        Raises:
            TypeError: the dataclass has no such field.
        """
        names, read = _reader(type(value))
        return type(value)(**{**dict(zip(names, read(value), strict=True)), **changes})

    @cache
    def _reader(kind: type) -> tuple[tuple[str, ...], Callable[[object], tuple[object, ...]]]:
        names = tuple(field.name for field in fields(kind) if field.init)
        if len(names) == 1:  # of one name, attrgetter returns no tuple
            return names, lambda value: (getattr(value, names[0]),)
        return names, attrgetter(*names)
