"""An API server in memory: few kinds, with the semantics that clients live on.

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
from tests.fakes.exchange import Asked, End, Silence, Told, Trouble, Watching
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
        versions: of resource.k8s.io that it serves.
        features: gates that are on.
        tokens: who may ask; None for everyone.
        denied: (verb, resource) that access reviews deny.
        asked: every request, in order.
        writes: those that changed something, as "create resourceslices/name".
        oldest: the resourceVersion from which on it remembers changes.
    """

    def __init__(self) -> None:
        """Start empty."""
        self.versions: tuple[str, ...] = ("v1", "v1beta2", "v1beta1")
        self.features = frozenset({*FEATURES, DEVICE_STATUS})
        self.tokens: set[str] | None = None
        self.denied: set[tuple[str, str]] = set()
        self.asked: list[Asked] = []
        self.writes: list[str] = []
        self.oldest = FIRST_VERSION
        self._objects: dict[Key, Document] = {}
        self._history: list[tuple[int, str, str, Document]] = []
        self._owned: dict[tuple[str, str], list[Document]] = {}
        self._watches: list[Watching] = []
        self._troubles: list[Trouble] = []
        self._held: tuple[Callable[[Asked], bool], asyncio.Event] | None = None
        self._numbers = count(1)
        self._pages = Pages()
        self._stirred = asyncio.Event()
        self._version = FIRST_VERSION

    # ------------------------------------------------------------ what tests do to it

    def fail(
        self,
        told: Told | Silence | None,
        matches: Callable[[Asked], bool] = lambda _: True,
        times: int = 1,
    ) -> None:
        """Give the next requests that match this answer; None breaks the connection."""
        self._troubles.append(Trouble(told, matches, times))

    def lose_answer(self, matches: Callable[[Asked], bool]) -> None:
        """Do what the next request that matches asks for, and break the connection."""
        self._troubles.append(Trouble(None, matches, 1, done=True))

    def hold(self, matches: Callable[[Asked], bool]) -> asyncio.Event:
        """Keep back the answers to requests that match, which are done, until the event is set."""
        self._held = (matches, asyncio.Event())
        return self._held[1]

    async def released(self, asked: Asked) -> None:
        """Return when the request may be answered."""
        if self._held and self._held[0](asked):
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
            known_key
            for known_key in self._objects
            if known_key[0] == plural and name in ("", known_key[2])
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
        """Return what there is."""
        return self._version, deepcopy(self._objects)

    def restore(self, backup: Backup, end: End = End.BROKEN) -> None:
        """Be put back to an earlier state, resourceVersions too; watches end."""
        self._version, self._objects = backup[0], deepcopy(backup[1])
        self._history = [event for event in self._history if event[0] <= self._version]
        self.end_watches(end)

    def forget_history(self) -> None:
        """Compact: no watch and no list can go on from before now."""
        self.oldest = self._version
        self._history.clear()
        self._pages.forget()

    def say(self, line: bytes) -> None:
        """Send bytes to every watch."""
        for watch in self._watches:
            watch.lines.put_nowait(line)

    def bookmark(self) -> None:
        """Tell every watch that wants to know how far it is."""
        told = {"metadata": {"resourceVersion": str(self._version)}}
        for watch in self._watches:
            if watch.bookmarks:
                self._send(watch, "BOOKMARK", told)

    def fail_watches(self, code: int) -> None:
        """Send an ERROR event to every watch and end it, as a server does that cannot go on."""
        self.say(event_line("ERROR", status(code, "Expired", "too old")))
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

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until something is true that requests or the ends of watches make true."""
        while not true():
            self._stirred.clear()
            await self._stirred.wait()

    def close(self, watch: Watching) -> None:
        """Forget a watch whose reader is gone."""
        if watch in self._watches:
            self._watches.remove(watch)
        self._stirred.set()

    # ------------------------------------------------------------ requests

    def answer(self, asked: Asked) -> Told | Watching | Silence | None:
        """Answer a request; None breaks the connection."""
        self.asked.append(asked)
        self._stirred.set()
        for trouble in self._troubles:
            if trouble.times and trouble.matches(asked):
                trouble.times -= 1
                if trouble.done:
                    self._routed(asked)
                return trouble.told
        if self.tokens is not None:
            token = asked.headers.get("authorization", "").removeprefix("Bearer ")
            if token not in self.tokens:
                return Told(401, status(401, "Unauthorized", "Unauthorized"))
        return self._routed(asked)

    def _routed(self, asked: Asked) -> Told | Watching:
        parts = asked.path.strip("/").split("/")
        if parts == ["apis", "resource.k8s.io"]:
            if not self.versions:
                return Told(404, b"404 page not found\n")
            entries = [{"version": version, "groupVersion": f"resource.k8s.io/{version}"} for version in self.versions]  # fmt: skip # noqa: E501
            return Told(200, {"kind": "APIGroup", "versions": entries})
        if parts == ["apis", "authorization.k8s.io", "v1", "selfsubjectaccessreviews"]:
            return Told(201, self._reviewed(inward(asked.body, "v1")))
        group = "resource.k8s.io" if parts[0] == "apis" else ""
        version, rest = (parts[2], parts[3:]) if group else (parts[1], parts[2:])
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        plural, name, part = [*rest, "", ""][:3]
        served = self.versions if group else ("v1",)
        if version not in served or KINDS.get(plural, ("", "?"))[1] != group:
            return Told(404, b"404 page not found\n")
        return self._served(asked, (plural, namespace, name), version, part)

    def _reviewed(self, body: Document) -> Document:
        wanted = body["spec"]["resourceAttributes"]
        resource = "/".join(filter(None, (wanted["resource"], wanted.get("subresource"))))
        return {**body, "status": {"allowed": (wanted["verb"], resource) not in self.denied}}

    def _served(self, asked: Asked, key: Key, version: str, part: str) -> Told | Watching:
        if asked.method == "GET" and not key[2]:
            return self._listed(asked, key[0], version)
        body = inward(asked.body, version)
        match asked.method:
            case "POST":
                return self._created((key[0], key[1], body["metadata"]["name"]), body, asked, version)  # fmt: skip # noqa: E501
            case "PATCH":
                told = self._applied(key, body, asked)
            case _ if key not in self._objects:
                return _missing(key)
            case "PUT":
                told = self._replaced(key, body)
            case "DELETE":
                told = self._deleted(key, asked.body.get("preconditions", {}))
            case _:
                told = Told(200, self._objects[key])
        assert isinstance(told.body, dict)
        return Told(told.status, outward(told.body, key[0], version), told.headers)

    def _listed(self, asked: Asked, plural: str, version: str) -> Told | Watching:
        selector = dict(term.split("=", 1) for term in asked.query.get("fieldSelector", "").split(",") if term)  # fmt: skip # noqa: E501
        unknown = [name for name in selector if name not in SELECTABLE]
        if unknown:
            return Told(400, status(400, "BadRequest", f"field label not supported: {unknown[0]}"))
        if asked.query.get("watch") == "true":
            return self._watched(asked, plural, version, selector)
        items = []
        for document in self.objects(plural):
            if selected(document, selector):
                item = outward(document, plural, version)
                items.append({name: item[name] for name in item if name not in IMPLIED})
        return self._pages.page(asked.query, self._version, items)

    def _watched(
        self, asked: Asked, plural: str, version: str, selector: Mapping[str, str]
    ) -> Told | Watching:
        since = int(asked.query["resourceVersion"])
        if since < self.oldest:
            return Told(410, status(410, "Expired", f"too old resource version: {since}"))
        bookmarks = asked.query.get("allowWatchBookmarks") == "true"
        seconds = float(asked.query.get("timeoutSeconds", "1800"))
        watch = Watching(plural, version, selector, seconds, bookmarks, since)
        for number, change, of, document in self._history:
            if number > since and of == plural:
                self._send(watch, change, document)
        self._watches.append(watch)
        return watch

    # ------------------------------------------------------------ changes

    def _created(self, key: Key, body: Document, asked: Asked, version: str) -> Told:
        if key in self._objects:
            text = f'{key[0]} "{key[2]}" already exists'
            return Told(409, status(409, "AlreadyExists", text, name=key[2]))
        metadata = {
            **body["metadata"],
            **({"namespace": key[1]} if key[1] else {}),
            "uid": f"uid-{next(self._numbers)}",
            "creationTimestamp": NOW,
            "generation": 1,
        }
        body = {**body, "metadata": metadata}
        told = self._checked(key, body, None)
        if isinstance(told, Told):
            return told
        if asked.query.get("dryRun") != "All":
            told = self._store(key, told, "ADDED", "create")
        return Told(201, outward(told, key[0], version))

    def _replaced(self, key: Key, body: Document) -> Told:
        old = self._objects[key]
        wanted = body["metadata"].get("resourceVersion")
        uid = body["metadata"].get("uid")
        if wanted not in (None, old["metadata"]["resourceVersion"]) or uid not in (
            None,
            old["metadata"]["uid"],
        ):
            return _modified(key)
        kept = ("uid", "creationTimestamp", "generation", "resourceVersion")
        metadata = {**body["metadata"], **{name: old["metadata"][name] for name in kept}}
        told = self._checked(key, {**body, "metadata": metadata}, old)
        if isinstance(told, Told):
            return told
        if told != old:
            self._store(key, told, "MODIFIED", "update")
        return Told(200, self._objects[key])

    def _checked(self, key: Key, body: Document, old: Document | None) -> Document | Told:
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
            return Told(422, status(422, "Invalid", text, name=key[2], causes=causes))
        return {**body, "spec": spec}

    def _deleted(self, key: Key, preconditions: Mapping[str, str]) -> Told:
        document = self._objects[key]
        for name, wanted in preconditions.items():
            found = document["metadata"][name]
            if found != wanted:
                text = f"Precondition failed: {name} in precondition: {wanted}, in object: {found}"
                return Told(409, status(409, "Conflict", text, name=key[2]))
        self._version += 1
        gone = deepcopy(document)
        gone["metadata"]["resourceVersion"] = str(self._version)
        del self._objects[key]
        self._note(key, "DELETED", gone, "delete")
        return Told(200, {"kind": "Status", "status": "Success", "metadata": {}})

    def _applied(self, key: Key, body: Document, asked: Asked) -> Told:
        """Apply a status; of `devices`, a list by key, each manager owns its own entries."""
        if key not in self._objects:
            return _missing(key)
        document = deepcopy(self._objects[key])
        uid = body["metadata"].get("uid")
        if uid not in (None, document["metadata"]["uid"]):
            causes = [
                {"field": "metadata.uid", "message": f'Invalid value: "{uid}": field is immutable'}
            ]
            return Told(422, status(422, "Invalid", "metadata.uid", name=key[2], causes=causes))
        version = body["metadata"].get("resourceVersion")
        if version not in (None, document["metadata"]["resourceVersion"]):
            return _modified(key)
        entries = body.get("status", {}).get("devices", [])
        owned = (document["metadata"]["uid"], asked.query["fieldManager"])
        before = self._owned.get(owned, [])
        mine = [entry_key(entry) for entry in entries]
        shown = document.setdefault("status", {})
        others = [
            device
            for device in shown.get("devices", [])
            if entry_key(device) not in mine and entry_key(device) not in before
        ]
        old = deepcopy(shown)
        shown.update(body.get("status", {}))
        shown["devices"] = [*others, *entries]
        document["status"] = settled_devices(old, shown, self.features)
        causes = device_problems(document["status"])
        if causes:
            text = f'ResourceClaim.resource.k8s.io "{key[2]}" is invalid'
            return Told(422, status(422, "Invalid", text, name=key[2], causes=causes))
        self._owned[owned] = mine
        if document != self._objects[key]:
            self._store(key, document, "MODIFIED", "patch")
        return Told(200, self._objects[key])

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

    def _send(self, watch: Watching, change: str, document: Document) -> None:
        number = int(document["metadata"]["resourceVersion"])
        if number < watch.since + (change != "BOOKMARK"):
            return
        if change == "BOOKMARK" or selected(document, watch.selector):
            watch.lines.put_nowait(
                event_line(change, outward(document, watch.plural, watch.version))
            )


def _modified(key: Key) -> Told:
    text = f'Operation cannot be fulfilled on {key[0]} "{key[2]}": the object has been modified'
    return Told(409, status(409, "Conflict", text, name=key[2]))


def _missing(key: Key) -> Told:
    return Told(404, status(404, "NotFound", f'{key[0]} "{key[2]}" not found', name=key[2]))
