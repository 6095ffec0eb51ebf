"""Slice writes: the requests that bring the server's pool to the desired state.

Rules:
1. Consumers use only the highest generation, and only if all its slices exist. A change of one
   slice keeps the generation; a change of several, or of their number, is a new generation of all
   slices.
2. Existing slices are changed, then missing ones created, then others deleted: consumers ignore
   slices of an older generation. Only a slice that blocks a name is deleted first.
3. The server's version of a sent slice counts as equal to it, so that fields which the server
   dropped or added are not written again.
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
    """A slice as sent, and as the server returned it; both normalized."""

    sent: Spec
    kept: Spec


@dataclass(frozen=True, slots=True)
class CreateSlice:
    """Create a slice."""

    part: SliceContent
    document: Object


@dataclass(frozen=True, slots=True)
class ReplaceSlice:
    """Replace a slice in its published state."""

    part: SliceContent
    document: Object


@dataclass(frozen=True, slots=True)
class DeleteSlice:
    """Delete a slice in its published state."""

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
    """Return the writes in their order; none if the server is up to date.

    Args:
        pool: common fields of all slices.
        parts: the desired slices.
        published: all slices of this driver and node.
        accepted: name → slice that was written before.
    """
    there = {resource_slice.name: resource_slice for resource_slice in published}
    # The name of a pool is immutable: a slice of another pool blocks the name.
    fitting = {
        name: resource_slice
        for name, resource_slice in there.items()
        if resource_slice.pool == pool.node
    }
    newest = max((resource_slice.generation for resource_slice in fitting.values()), default=0)
    desired = {part.name: part for part in parts}
    others = [resource_slice for name, resource_slice in there.items() if name not in desired]
    blocking = [
        resource_slice
        for name, resource_slice in there.items()
        if name in desired and name not in fitting
    ]

    specs = {part.name: spec_of(pool, part, newest, len(parts)) for part in parts}
    wrong = [
        part
        for name, part in desired.items()
        if not _is_right(pool, specs[name], fitting.get(name), accepted.get(name))
    ]
    if wrong and (len(wrong) > 1 or not newest or _counted(others, pool, newest)):
        newest, wrong = newest + 1, [*parts]
    steps = [
        _step(pool, part, spec_of(pool, part, newest, len(parts)), fitting.get(part.name))
        for part in wrong
    ]
    return (
        *map(_removal, blocking),
        *(step for step in steps if isinstance(step, ReplaceSlice)),
        *(step for step in steps if isinstance(step, CreateSlice)),
        *map(_removal, others),
    )


def _is_right(
    pool: SlicePool, spec: Spec, before: PublishedSlice | None, accepted: AcceptedSlice | None
) -> bool:
    """Return whether a slice has the desired spec, or the server's version of it."""
    if before is None or before.owners != (pool.node_uid,):
        return False
    sent = settled(spec)
    return before.spec == sent or accepted == AcceptedSlice(sent, before.spec)


def _counted(others: Iterable[PublishedSlice], pool: SlicePool, generation: int) -> bool:
    """Return whether one of these is a slice of the pool."""
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
