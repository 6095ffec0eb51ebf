"""Lists that the fake API server gives in pages, as the real one does.

Origin: Kubernetes API concepts, "Retrieving large results sets in chunks"; apiserver's
storage/cacher: a limit counts only where the newest state is asked for.
"""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from tests.fakes.documents import status
from tests.fakes.exchange import Response

Document = dict[str, Any]
INVALID = "invalid continue token"
TWO_STATES = "specifying resource version is not allowed when using continue"
EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter."
)


class Pages:
    """Lists that were begun, each as it was then."""

    def __init__(self) -> None:
        """Begin with none."""
        self._numbers = count(1)
        self._left: dict[str, tuple[int, Sequence[Document]]] = {}
        self._forgotten: set[str] = set()

    def forget(self) -> None:
        """Forget how things were: no list that was begun can go on."""
        self._forgotten |= self._left.keys()
        self._left.clear()

    def page(self, query: Mapping[str, str], version: int, items: Sequence[Document]) -> Response:
        """Return what a request gets of the items, which are there now, in this version."""
        since, going_on = query.get("resourceVersion", ""), query.get("continue", "")
        if going_on in self._forgotten:
            return Response(410, status(410, "Expired", EXPIRED))
        if going_on and going_on not in self._left:
            return Response(400, status(400, "BadRequest", INVALID))
        if going_on and since not in ("", "0"):
            return Response(400, status(400, "BadRequest", TWO_STATES))
        if going_on:
            version, items = self._left[going_on]
        limit = int(query.get("limit", "0")) if since != "0" or going_on else 0
        metadata = {"resourceVersion": str(version)}
        if 0 < limit < len(items):
            rest = metadata["continue"] = f"list-{next(self._numbers)}"
            self._left[rest] = version, items[limit:]
            items = items[:limit]
        return Response(200, {"kind": "List", "metadata": metadata, "items": list(items)})
