"""Claims that somebody else prepared on this node, as dranet before us: recorded as ours.

A kubelet does not ask again for pods that run. Without a record their NICs would be nobody's: not
published, not restored when the pods end, and refused to containers that start anew.

Rules:
1. It comes before the node's devices are published anew: what the slices of before say of a device
   in a pod is all that is known of it. So they are read first, and kept.
2. Publishing does not wait for ever. Until a claim has its record its devices are not offered, for
   they are not on the host, and the scheduler goes by the claim.
3. Once is enough. It is looked for when we come to a node, and when slices are there that we did
   not write; else nothing is listed.
4. A cluster's claims are too many to have at once. They come in pages, and this node's are kept.
5. A refusal may pass: rights are granted later, and a stale record is swept. While a claim has no
   record, what was known before is kept, and it is tried again without another list.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from math import inf
from typing import Final, Self

from dra_shim.api import (
    CLAIM,
    SLICE,
    Api,
    ApiError,
    Document,
    ExpiredError,
    NotFoundError,
    UnavailableError,
    name_of,
)
from dra_shim.claims import AllocatedClaim, read_allocated
from dra_shim.prepare import Answer, DeviceSource
from dra_shim.settings import State
from dra_shim.slices.layout import is_own
from dra_shim.stock import derived_key
from dra_shim.timing import REAL, Alarm, Timing
from dranet_nri.errors import ConfigError
from dranet_nri.inventory import NUMA_NODE
from dranet_nri.model import DRIVER_NAME, AttributeValue, Device, ObjectRef, Version
from dranet_nri.pauses import pause_after

PAGE: Final = 100  # claims at a time; one is some 15 KB, and six times that when it is read
PATIENCE_S: Final = 60.0  # of publishing, once it is known what was published before
FIRST_PAUSE_S: Final = 1.0  # before the server is asked again; doubles
LONGEST_PAUSE_S: Final = 30.0
FIRST_LASTING_S: Final = 30.0  # after a refusal of us, which somebody must do something about
LONGEST_LASTING_S: Final = 300.0
REFUSED_S: Final = 300.0  # before claims that were refused are tried again
_PCI_NAME: Final = re.compile(
    r"pci-([0-9a-f]{4,8})-([0-9a-f]{2})-([0-9a-f]{2})-([0-9a-f])(-p[0-9]+)?"
)
_RDMA: Final = "dra.net/rdmaDevice"
_ADDRESS: Final = "dra.net/pciAddress"

Prepare = Callable[[Sequence[ObjectRef], Mapping[str, Device]], Awaitable[Mapping[str, Answer]]]


@dataclass(frozen=True, slots=True)
class Adopted:
    """Claims of before were looked for; refused tells of those that have no record."""

    claims: int
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotAdopted:
    """Claims of before cannot be looked for; tried again after retry_s seconds, None for never."""

    error: ApiError | OSError
    retry_s: float | None


Notice = Adopted | NotAdopted


class KnownBefore:
    """A DeviceSource that also knows devices by what was published of them."""

    def __init__(self, source: DeviceSource, before: Mapping[str, Device]) -> None:
        """Ask source first."""
        self._source = source
        self._before = before

    async def devices(self, names: Collection[str]) -> Mapping[str, Device]:
        """See DeviceSource."""
        found = await self._source.devices(names)
        known = {name: self._before[name] for name in names if name in self._before}
        return {**known, **found}


class Adoption:
    """Looks for claims of before, once."""

    def __init__(
        self,
        api: Api,
        node: str,
        state: State,
        prepare: Prepare,
        notify: Callable[[Notice], None],
        timing: Timing = REAL,
    ) -> None:
        """Prepare; run does the work.

        Args:
            api: the server.
            node: this node's name.
            state: where it is noted that it was done.
            prepare: records claims whose devices may be known from before only; answers for
                those that a pod has still.
            notify: told what came of it, of refusals when they change; must not raise.
            timing: what it goes by.
        """
        self._api = api
        self._node = node
        self._state = state
        self._prepare = prepare
        self._notify = notify
        self._timing = timing
        self._alarm = Alarm(timing)
        self._slices: Sequence[Document] | None = None  # of before; ours take their place
        self._left: _Left | None = None
        self._publish_at = inf

    async def run(self) -> None:
        """Return when it is done, need not be, or cannot be noted."""
        pauses = _Pauses(self._timing.random)
        while True:
            try:
                if await self._adopt():
                    break
            except ApiError as error:
                wait_s = pauses.after(error)
                self._notify(NotAdopted(error, wait_s))
            except OSError as error:
                self._notify(NotAdopted(error, None))
                break
            else:
                pauses = _Pauses(self._timing.random)
                wait_s = REFUSED_S
            await self._timing.sleep(wait_s)
        self._slices = self._left = None
        self._let_publish(-inf)

    async def awaited(self) -> None:
        """Return when publishing may begin: what can be done is, or it takes too long."""
        await self._alarm.until(lambda: self._publish_at)

    def _let_publish(self, at: float) -> None:
        self._publish_at = min(self._publish_at, at)
        self._alarm.stir()

    async def _adopt(self) -> bool:
        """Have claims recorded that are not yet; say whether none is left."""
        if self._left is None:
            before = await self._before()
            ours = all(is_own(self._node, name_of(each)) for each in before)
            if self._state.adopted.exists() and ours:
                return True
            self._state.adopted.unlink(missing_ok=True)  # soon all slices are ours again
            left = _Left.of(await self._claims(), before)
        else:
            left = replace(self._left, claims=await self._still_used(self._left.claims))
        answers = await self._prepare(left.claims, left.known) if left.claims else {}
        errors = {each: answers[each.uid].error for each in left.claims if each.uid in answers}
        refused = {each: error for each, error in errors.items() if error}
        told = tuple(f"claim {each}: {error}" for each, error in refused.items())
        recorded = len(errors) - len(refused)
        if recorded or told != left.told:
            self._notify(Adopted(recorded, told))
        self._slices, self._left = None, _Left(tuple(refused), left.known, told)
        self._let_publish(-inf)
        if not refused:  # else the next start looks again
            self._state.adopted.touch()
        return not refused

    async def _before(self) -> Sequence[Document]:
        """Return the node's slices as they were before we published."""
        if self._slices is None:
            fields = {"spec.nodeName": self._node, "spec.driver": DRIVER_NAME}
            self._slices = (await self._api.list(SLICE, fields)).items
            self._let_publish(self._timing.clock() + PATIENCE_S)
        return self._slices

    async def _claims(self) -> Sequence[AllocatedClaim]:
        """Return this node's claims, of one state of the server."""
        found: list[AllocatedClaim] = []
        async with aclosing(self._api.pages(CLAIM, PAGE)) as pages:
            async for page in pages:
                found += claims_of_node(page.items, self._node)
        return found

    async def _still_used(self, claims: Sequence[ObjectRef]) -> tuple[ObjectRef, ...]:
        """Return those of the claims that pods of this node have still."""
        found: list[ObjectRef] = []
        for claim in claims:
            with suppress(NotFoundError):
                document = await self._api.get(CLAIM, claim.name, claim.namespace)
                found += (each.ref for each in claims_of_node([document], self._node))
        return tuple(each for each in found if each in claims)


@dataclass(frozen=True, slots=True)
class _Left:
    """Claims of before without a record.

    Attributes:
        claims: which.
        known: what was published of their devices, by name.
        told: why they were refused, as it was told; None for not yet.
    """

    claims: tuple[ObjectRef, ...]
    known: Mapping[str, Device]
    told: tuple[str, ...] | None = None

    @classmethod
    def of(cls, claims: Sequence[AllocatedClaim], before: Sequence[Document]) -> Self:
        """Return it for claims, and the slices of before."""
        names = {result.device[2] for each in claims for result in each.results}
        published = devices_of_slices(before)
        known = {name: published.get(name) or published_device(name, {}) for name in names}
        return cls(tuple(each.ref for each in claims), known)


class _Pauses:
    """Doubling pauses. No answer and a refusal count apart: a server that starts gives both."""

    def __init__(self, random: Callable[[], float]) -> None:
        """Begin anew; random gives 0 to 1."""
        self._random = random
        self._lasting = False
        self._failures = 0

    def after(self, error: ApiError) -> float:
        """Return how many seconds to wait."""
        lasting = not isinstance(error, UnavailableError | ExpiredError)
        if lasting is not self._lasting:
            self._lasting, self._failures = lasting, 0
        first_s, longest_s = (
            (FIRST_LASTING_S, LONGEST_LASTING_S) if lasting else (FIRST_PAUSE_S, LONGEST_PAUSE_S)
        )
        pause_s = pause_after(self._failures, first_s, longest_s, self._random())
        self._failures += 1
        return max(pause_s, error.after_s if isinstance(error, UnavailableError) else 0.0)


def claims_of_node(documents: Sequence[Document], node: str) -> tuple[AllocatedClaim, ...]:
    """Return the claims that have devices of ours in this node's pool, and pods to use them."""
    found: list[AllocatedClaim] = []
    for document in documents:
        try:
            claim = read_allocated(document)
        except ConfigError:  # what a server does not write is no claim of before
            continue
        ours = any(each.device[:2] == (DRIVER_NAME, node) for each in claim.results)
        if ours and any(each.resource == "pods" for each in claim.consumers):
            found.append(claim)
    return tuple(found)


def devices_of_slices(documents: Sequence[Document]) -> dict[str, Device]:
    """Return the devices of slices by name, in whichever version; what is odd says nothing."""
    return {
        str(device.get("name")): published_device(str(device.get("name")), dict(_facts(device)))
        for document in documents
        for device in _objects(_object(document.get("spec")).get("devices"))
    }


def published_device(name: str, attributes: Mapping[str, AttributeValue]) -> Device:
    """Return a device as what is published of it tells it; its name alone may tell where it is."""
    said = {_qualified(key): value for key, value in attributes.items()}
    place = _PCI_NAME.fullmatch(name)
    if place:
        domain, bus, slot, function, _ = place.groups()
        said.setdefault(_ADDRESS, f"{domain}:{bus}:{slot}.{function}")
    rdma = said.get(_RDMA)
    return Device(
        name,
        derived_key(said, name),
        tuple(sorted(said.items())),
        (rdma,) if isinstance(rdma, str) and rdma else (),
    )


def _facts(device: Document) -> Iterator[tuple[str, AttributeValue]]:
    """Yield name and value of a device's attributes; v1beta1 has them one level deeper."""
    attributes = _object(_object(device.get("basic", device)).get("attributes"))
    for name, entry in attributes.items():
        match entry:
            case {"version": str(text)}:
                yield name, Version(text)
            case {"bool": bool(value)} | {"int": int(value)} | {"string": str(value)}:
                yield name, value
            case {"ints": [int(value), *_]} if name == NUMA_NODE:  # it comes first (KEP-6072)
                yield name, value


def _objects(value: object) -> Iterator[Document]:
    return (
        (each for each in value if isinstance(each, Mapping))
        if isinstance(value, list)
        else iter(())
    )


def _object(value: object) -> Document:
    return value if isinstance(value, Mapping) else {}


def _qualified(name: str) -> str:
    """Return an attribute's whole name; a driver's own may be published without its domain."""
    return name if "/" in name else f"{DRIVER_NAME}/{name}"
