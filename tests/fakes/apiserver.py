"""An API server in memory: a few kinds, with the semantics that clients rely on.

resourceVersions, optimistic locking, preconditions, field selectors, lists in pages, watch with
history, 410 and bookmarks, server-side apply of claim status, dry runs, feature gates that drop
fields. test_contract.py in tests/dra_shim/kubeapi, resourceslice and status hold it to a real one,
and tests/dra_shim/kubeapi/test_pages.py.
"""

import asyncio
from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import count
from typing import Any

from tests.fakes.claim_rules import DEVICE_STATUS, device_problems, settled_devices
from tests.fakes.documents import KINDS, entry_key, event_line, inward, outward, selected, status
from tests.fakes.exchange import End, InjectedFailure, NoResponse, Request, Response, WatchStream
from tests.fakes.pages import Pages
from tests.fakes.slice_rules import FEATURES, problems, settled

Document = dict[str, Any]
Key = tuple[str, str, str]  # plural, namespace, name
Backup = tuple[int, dict[Key, Document]]
FIRST_VERSION = 100
NOW = "2026-11-20T12:00:00Z"
IMPLIED = ("apiVersion", "kind")  # what items of a list do not say
SELECTABLE = ("metadata.name", "metadata.namespace", "spec.nodeName", "spec.driver")


class FakeApiServer:
    """The server.

    Attributes:
        versions: served versions of resource.k8s.io.
        features: gates that are on.
        tokens: accepted bearer tokens; None accepts every request.
        denied: (verb, resource) that access reviews deny.
        requests: every request, in order.
        writes: those that changed something, as "create resourceslices/name".
        oldest: the first resourceVersion of the change history.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.versions: tuple[str, ...] = ("v1", "v1beta2", "v1beta1")
        self.features = frozenset({*FEATURES, DEVICE_STATUS})
        self.tokens: set[str] | None = None
        self.denied: set[tuple[str, str]] = set()
        self.requests: list[Request] = []
        self.writes: list[str] = []
        self.oldest = FIRST_VERSION
        self._objects: dict[Key, Document] = {}
        self._history: list[tuple[int, str, str, Document]] = []
        self._owned: dict[tuple[str, str], list[Document]] = {}
        self._watches: list[WatchStream] = []
        self._failures: list[InjectedFailure] = []
        self._held: tuple[Callable[[Request], bool], asyncio.Event] | None = None
        self._numbers = count(1)
        self._pages = Pages()
        self._changed = asyncio.Event()
        self._version = FIRST_VERSION

    # ------------------------------------------------------------ control by tests

    def fail(
        self,
        response: Response | NoResponse | None,
        matches: Callable[[Request], bool] = lambda _: True,
        times: int = 1,
    ) -> None:
        """Answer the next matching requests with this response; None breaks the connection."""
        self._failures.append(InjectedFailure(response, matches, times))

    def lose_answer(self, matches: Callable[[Request], bool]) -> None:
        """Carry out the next matching request, and break the connection before the response."""
        self._failures.append(InjectedFailure(None, matches, 1, done=True))

    def hold(self, matches: Callable[[Request], bool]) -> asyncio.Event:
        """Carry out matching requests, and delay their responses until the event is set."""
        self._held = (matches, asyncio.Event())
        return self._held[1]

    async def released(self, request: Request) -> None:
        """Return when the request may be answered."""
        if self._held and self._held[0](request):
            await self._held[1].wait()

    def objects(self, plural: str) -> list[Document]:
        """Return the objects of a kind, by name."""
        return [deepcopy(self._objects[key]) for key in sorted(self._objects) if key[0] == plural]

    def alter(
        self, plural: str, name: str, change: Callable[[Document], None], namespace: str = ""
    ) -> None:
        """Change an object as a person would by hand."""
        key = (plural, namespace, name)
        document = deepcopy(self._objects[key])
        change(document)
        self._store(key, document, "MODIFIED", "alter")

    def remove(self, plural: str, name: str = "") -> None:
        """Remove an object, or all of a kind, as a person or a kubelet would."""
        for key in [
            key_of_object
            for key_of_object in self._objects
            if key_of_object[0] == plural and name in ("", key_of_object[2])
        ]:
            self._deleted(key, {})

    def collect_garbage(self) -> None:
        """Remove slices whose owner is gone."""
        uids = {node["metadata"]["uid"] for node in self.objects("nodes")}
        for document in self.objects("resourceslices"):
            owners = document["metadata"].get("ownerReferences", [])
            if owners and not {owner["uid"] for owner in owners} & uids:
                self.remove("resourceslices", document["metadata"]["name"])

    def backup(self) -> Backup:
        """Return the state: resourceVersion and objects."""
        return self._version, deepcopy(self._objects)

    def restore(self, backup: Backup, end: End = End.BROKEN) -> None:
        """Restore an earlier state, resourceVersions included; watches end."""
        self._version, self._objects = backup[0], deepcopy(backup[1])
        self._history = [event for event in self._history if event[0] <= self._version]
        self.end_watches(end)

    def forget_history(self) -> None:
        """Compact the history: watches and lists from an earlier state get 410."""
        self.oldest = self._version
        self._history.clear()
        self._pages.forget()

    def send_to_watches(self, line: bytes) -> None:
        """Send bytes to every watch."""
        for watch in self._watches:
            watch.lines.put_nowait(line)

    def bookmark(self) -> None:
        """Send a bookmark to every watch that allows them."""
        response = {"metadata": {"resourceVersion": str(self._version)}}
        for watch in self._watches:
            if watch.bookmarks:
                self._send(watch, "BOOKMARK", response)

    def fail_watches(self, code: int) -> None:
        """Send an ERROR event to every watch and end it."""
        self.send_to_watches(event_line("ERROR", status(code, "Expired", "too old")))
        self.end_watches()

    def end_watches(self, end: End = End.PROPER) -> None:
        """End every watch."""
        for watch in self._watches:
            watch.lines.put_nowait(end)
        self._watches.clear()

    @property
    def watching(self) -> int:
        """Return how many watches are open."""
        return len(self._watches)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that requests or the ends of watches make true."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    def close(self, watch: WatchStream) -> None:
        """Remove a watch whose reader is gone."""
        if watch in self._watches:
            self._watches.remove(watch)
        self._changed.set()

    # ------------------------------------------------------------ requests

    def answer(self, request: Request) -> Response | WatchStream | NoResponse | None:
        """Answer a request; None breaks the connection."""
        self.requests.append(request)
        self._changed.set()
        for failure in self._failures:
            if failure.times and failure.matches(request):
                failure.times -= 1
                if failure.done:
                    self._routed(request)
                return failure.response
        if self.tokens is not None:
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            if token not in self.tokens:
                return Response(401, status(401, "Unauthorized", "Unauthorized"))
        return self._routed(request)

    def _routed(self, request: Request) -> Response | WatchStream:
        parts = request.path.strip("/").split("/")
        if parts == ["apis", "resource.k8s.io"]:
            if not self.versions:
                return Response(404, b"404 page not found\n")
            entries = [{"version": version, "groupVersion": f"resource.k8s.io/{version}"} for version in self.versions]  # fmt: skip # noqa: E501
            return Response(200, {"kind": "APIGroup", "versions": entries})
        if parts == ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"]:
            return Response(201, self._reviewed(inward(request.body, "v1")))
        group = "resource.k8s.io" if parts[0] == "apis" else ""
        version, rest = (parts[2], parts[3:]) if group else (parts[1], parts[2:])
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name, part = [*rest, "", ""][:3]
        served = self.versions if group else ("v1",)
        if version not in served or KINDS.get(plural, ("", "?"))[1] != group:
            return Response(404, b"404 page not found\n")
        return self._served(request, (plural, namespace, name), version, part)

    def _reviewed(self, body: Document) -> Document:
        expected = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (expected["resource"], expected.get("subresource"))))
        return {**body, "status": {"allowed": (expected["verb"], resource) not in self.denied}}

    def _served(
        self, request: Request, key: Key, version: str, part: str
    ) -> Response | WatchStream:
        if request.method == "GET" and not key[2]:
            return self._listed(request, key[0], version)
        body = inward(request.body, version)
        match request.method:
            case "POST":
                return self._created((key[0], key[1], body["metadata"]["name"]), body, request, version)  # fmt: skip # noqa: E501
            case "PATCH":
                response = self._applied(key, body, request)
            case _ if key not in self._objects:
                return _missing(key)
            case "PUT":
                response = self._replaced(key, body)
            case "DELETE":
                response = self._deleted(key, request.body.get("preconditions", {}))
            case _:
                response = Response(200, self._objects[key])
        assert isinstance(response.body, dict)
        return Response(response.status, outward(response.body, key[0], version), response.headers)

    def _listed(self, request: Request, plural: str, version: str) -> Response | WatchStream:
        selector = dict(term.split("=", 1) for term in request.query.get("fieldSelector", "").split(",") if term)  # fmt: skip # noqa: E501
        unknown = [name for name in selector if name not in SELECTABLE]
        if unknown:
            return Response(
                400, status(400, "BadRequest", f"field label not supported: {unknown[0]}")
            )
        if request.query.get("watch") == "true":
            return self._watched(request, plural, version, selector)
        items = []
        for document in self.objects(plural):
            if selected(document, selector):
                item = outward(document, plural, version)
                items.append({name: item[name] for name in item if name not in IMPLIED})
        return self._pages.page(request.query, self._version, items)

    def _watched(
        self, request: Request, plural: str, version: str, selector: Mapping[str, str]
    ) -> Response | WatchStream:
        since = int(request.query["resourceVersion"])
        if since < self.oldest:
            return Response(410, status(410, "Expired", f"too old resource version: {since}"))
        bookmarks = request.query.get("allowWatchBookmarks") == "true"
        seconds = float(request.query.get("timeoutSeconds", "1800"))
        watch = WatchStream(plural, version, selector, seconds, bookmarks, since)
        for number, change, of, document in self._history:
            if number > since and of == plural:
                self._send(watch, change, document)
        self._watches.append(watch)
        return watch

    # ------------------------------------------------------------ changes

    def _created(self, key: Key, body: Document, request: Request, version: str) -> Response:
        if key in self._objects:
            text = f'{key[0]} "{key[2]}" already exists'
            return Response(409, status(409, "AlreadyExists", text, name=key[2]))
        metadata = {
            **body["metadata"],
            **({"namespace": key[1]} if key[1] else {}),
            "uid": f"uid-{next(self._numbers)}",
            "creationTimestamp": NOW,
            "generation": 1,
        }
        body = {**body, "metadata": metadata}
        response = self._checked(key, body, None)
        if isinstance(response, Response):
            return response
        if request.query.get("dryRun") != "All":
            response = self._store(key, response, "ADDED", "create")
        return Response(201, outward(response, key[0], version))

    def _replaced(self, key: Key, body: Document) -> Response:
        old = self._objects[key]
        expected = body["metadata"].get("resourceVersion")
        uid = body["metadata"].get("uid")
        if expected not in (None, old["metadata"]["resourceVersion"]) or uid not in (
            None,
            old["metadata"]["uid"],
        ):
            return _modified(key)
        server_fields = ("uid", "creationTimestamp", "generation", "resourceVersion")
        metadata = {**body["metadata"], **{name: old["metadata"][name] for name in server_fields}}
        response = self._checked(key, {**body, "metadata": metadata}, old)
        if isinstance(response, Response):
            return response
        if response != old:
            self._store(key, response, "MODIFIED", "update")
        return Response(200, self._objects[key])

    def _checked(self, key: Key, body: Document, old: Document | None) -> Document | Response:
        if key[0] != "resourceslices":
            return body
        before = old["spec"] if old else None
        spec = settled(body["spec"], before, self.features, NOW)
        causes = [
            {"reason": "FieldValueInvalid", "field": path, "message": message}
            for path, message in problems(spec, before)
        ]
        if causes:
            text = f'ResourceSlice.resource.k8s.io "{key[2]}" is invalid: ' + "; ".join(
                f"{cause['field']}: {cause['message']}" for cause in causes
            )
            return Response(422, status(422, "Invalid", text, name=key[2], causes=causes))
        return {**body, "spec": spec}

    def _deleted(self, key: Key, preconditions: Mapping[str, str]) -> Response:
        document = self._objects[key]
        for name, expected in preconditions.items():
            found = document["metadata"][name]
            if found != expected:
                text = (
                    f"Precondition failed: {name} in precondition: {expected}, in object: {found}"
                )
                return Response(409, status(409, "Conflict", text, name=key[2]))
        self._version += 1
        gone = deepcopy(document)
        gone["metadata"]["resourceVersion"] = str(self._version)
        del self._objects[key]
        self._note(key, "DELETED", gone, "delete")
        return Response(200, {"kind": "Status", "status": "Success", "metadata": {}})

    def _applied(self, key: Key, body: Document, request: Request) -> Response:
        """Apply a status; of `devices`, a list by key, each manager owns its own entries."""
        if key not in self._objects:
            return _missing(key)
        document = deepcopy(self._objects[key])
        uid = body["metadata"].get("uid")
        if uid not in (None, document["metadata"]["uid"]):
            causes = [
                {"field": "metadata.uid", "message": f'Invalid value: "{uid}": field is immutable'}
            ]
            return Response(422, status(422, "Invalid", "metadata.uid", name=key[2], causes=causes))
        version = body["metadata"].get("resourceVersion")
        if version not in (None, document["metadata"]["resourceVersion"]):
            return _modified(key)
        entries = body.get("status", {}).get("devices", [])
        owned = (document["metadata"]["uid"], request.query["fieldManager"])
        before = self._owned.get(owned, [])
        keys = [entry_key(entry) for entry in entries]
        shown = document.setdefault("status", {})
        others = [
            device
            for device in shown.get("devices", [])
            if entry_key(device) not in keys and entry_key(device) not in before
        ]
        old = deepcopy(shown)
        shown.update(body.get("status", {}))
        shown["devices"] = [*others, *entries]
        document["status"] = settled_devices(old, shown, self.features)
        causes = device_problems(document["status"])
        if causes:
            text = f'ResourceClaim.resource.k8s.io "{key[2]}" is invalid'
            return Response(422, status(422, "Invalid", text, name=key[2], causes=causes))
        self._owned[owned] = keys
        if document != self._objects[key]:
            self._store(key, document, "MODIFIED", "patch")
        return Response(200, self._objects[key])

    def _store(self, key: Key, document: Document, change: str, verb: str) -> Document:
        old = self._objects.get(key)
        document = deepcopy(document)
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        if old and old.get("spec") != document.get("spec"):
            document["metadata"]["generation"] += 1
        self._objects[key] = document
        self._note(key, change, document, verb)
        return document

    def _note(self, key: Key, change: str, document: Document, verb: str) -> None:
        self.writes.append(f"{verb} {key[0]}/{key[2]}")
        self._history.append((self._version, change, key[0], document))
        for watch in self._watches:
            if watch.plural == key[0]:
                self._send(watch, change, document)

    def _send(self, watch: WatchStream, change: str, document: Document) -> None:
        number = int(document["metadata"]["resourceVersion"])
        if number < watch.since + (change != "BOOKMARK"):
            return
        if change == "BOOKMARK" or selected(document, watch.selector):
            watch.lines.put_nowait(
                event_line(change, outward(document, watch.plural, watch.version))
            )


def _modified(key: Key) -> Response:
    text = f'Operation cannot be fulfilled on {key[0]} "{key[2]}": the object has been modified'
    return Response(409, status(409, "Conflict", text, name=key[2]))


def _missing(key: Key) -> Response:
    return Response(404, status(404, "NotFound", f'{key[0]} "{key[2]}" not found', name=key[2]))
