"""Slice writes: the requests that bring the server's pool to the desired one.

Rules:
1. Consumers see only the highest generation, and only if all its slices are there. A change of one
   slice keeps the generation; a change of several, or of their number, is a new one, in all.
2. Existing slices are changed, then missing ones created, then others removed: consumers ignore
   slices of an older generation. Only a slice that blocks a name is removed first.
3. The server's version of a sent slice counts as equal to it: fields that the server dropped, or
   added, are not written again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dra_shim.kubeapi import Object
from dra_shim.resourceslice.documents import (
    PublishedSlice,
    SlicePool,
    Spec,
    changed_document,
    new_document,
    settled,
    spec_of,
)
from dra_shim.resourceslice.layout import SliceContent


@dataclass(frozen=True, slots=True)
class AcceptedSlice:
    """A slice as sent, and as the server returned it; both settled."""

    sent: Spec
    kept: Spec


@dataclass(frozen=True, slots=True)
class CreateSlice:
    """Create a slice."""

    part: SliceContent
    document: Object


@dataclass(frozen=True, slots=True)
class ReplaceSlice:
    """Replace a slice, in the state in which it was seen."""

    part: SliceContent
    document: Object


@dataclass(frozen=True, slots=True)
class DeleteSlice:
    """Remove a slice, in the state in which it was seen."""

    name: str
    uid: str
    version: str


Step = CreateSlice | ReplaceSlice | DeleteSlice


def plan(
    pool: SlicePool,
    parts: Sequence[SliceContent],
    published: Iterable[PublishedSlice],
    accepted: Mapping[str, AcceptedSlice],
) -> tuple[Step, ...]:
    """Return what must be done, in this order; nothing where all is as it should be.

    Args:
        pool: what all slices say.
        parts: the slices that shall be.
        published: all slices of this driver and node.
        accepted: by name, of what was written before.
    """
    there = {resource_slice.name: resource_slice for resource_slice in published}
    # The name of a pool cannot be changed: a slice of another one is in the way.
    fitting = {
        name: resource_slice
        for name, resource_slice in there.items()
        if resource_slice.pool == pool.node
    }
    newest = max((resource_slice.generation for resource_slice in fitting.values()), default=0)
    wanted = {part.name: part for part in parts}
    others = [resource_slice for name, resource_slice in there.items() if name not in wanted]
    in_the_way = [
        resource_slice
        for name, resource_slice in there.items()
        if name in wanted and name not in fitting
    ]

    specs = {part.name: spec_of(pool, part, newest, len(parts)) for part in parts}
    wrong = [
        part
        for name, part in wanted.items()
        if not _is_right(pool, specs[name], fitting.get(name), accepted.get(name))
    ]
    if wrong and (len(wrong) > 1 or not newest or _counted(others, pool, newest)):
        newest, wrong = newest + 1, [*parts]
    steps = [
        _step(pool, part, spec_of(pool, part, newest, len(parts)), fitting.get(part.name))
        for part in wrong
    ]
    return (
        *map(_removal, in_the_way),
        *(step for step in steps if isinstance(step, ReplaceSlice)),
        *(step for step in steps if isinstance(step, CreateSlice)),
        *map(_removal, others),
    )


def _is_right(
    pool: SlicePool, spec: Spec, before: PublishedSlice | None, known: AcceptedSlice | None
) -> bool:
    """Whether a slice says what it shall, or what the server made of that."""
    if before is None or before.owners != (pool.node_uid,):
        return False
    sent = settled(spec)
    return before.spec == sent or known == AcceptedSlice(sent, before.spec)


def _counted(others: Iterable[PublishedSlice], pool: SlicePool, generation: int) -> bool:
    """Whether one of these counts as a slice of the pool."""
    return any(
        resource_slice.pool == pool.node and resource_slice.generation == generation
        for resource_slice in others
    )


def _step(
    pool: SlicePool, part: SliceContent, spec: Spec, before: PublishedSlice | None
) -> CreateSlice | ReplaceSlice:
    if before is None:
        return CreateSlice(part, new_document(pool, part, spec))
    return ReplaceSlice(part, changed_document(pool, before, spec))


def _removal(published: PublishedSlice) -> DeleteSlice:
    return DeleteSlice(published.name, published.uid, published.version)
