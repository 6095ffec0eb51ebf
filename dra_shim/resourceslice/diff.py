"""Slice writes: the requests that bring the server's pool to the desired state.

Rules:
1. Consumers use only the highest generation, and only if all its slices exist. A change of one
   slice keeps the generation; a change of several, or of their number, is a new generation of all
   slices.
2. Existing slices are changed, then missing ones created, then others deleted: consumers ignore
   slices of an older generation. Only a slice that blocks a name is deleted first.
3. A slice as the server stored it counts as equal to the sent one, so that fields which the server
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
    normalized,
    spec_of,
)
from dra_shim.resourceslice.layout import SliceContent


@dataclass(frozen=True, slots=True)
class AcceptedSlice:
    """Spec of a slice as sent, and as the server stored it; both normalized."""

    sent: Spec
    stored: Spec


@dataclass(frozen=True, slots=True)
class CreateSlice:
    """Create a slice."""

    content: SliceContent
    document: Object


@dataclass(frozen=True, slots=True)
class ReplaceSlice:
    """Replace a slice in its published state."""

    content: SliceContent
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
    contents: Sequence[SliceContent],
    published: Iterable[PublishedSlice],
    accepted: Mapping[str, AcceptedSlice],
) -> tuple[Step, ...]:
    """Return the writes in their order; none if the server is up to date.

    Args:
        pool: common fields of all slices.
        contents: the desired slices.
        published: all slices of this driver and node.
        accepted: name → slice that was written before.
    """
    by_name = {resource_slice.name: resource_slice for resource_slice in published}
    # The name of a pool is immutable: a slice of another pool blocks the name.
    in_pool = {
        name: resource_slice
        for name, resource_slice in by_name.items()
        if resource_slice.pool == pool.node
    }
    newest = max((resource_slice.generation for resource_slice in in_pool.values()), default=0)
    desired = {content.name: content for content in contents}
    others = [resource_slice for name, resource_slice in by_name.items() if name not in desired]
    blocking = [
        resource_slice
        for name, resource_slice in by_name.items()
        if name in desired and name not in in_pool
    ]

    specs = {content.name: spec_of(pool, content, newest, len(contents)) for content in contents}
    outdated = [
        content
        for name, content in desired.items()
        if not _is_current(pool, specs[name], in_pool.get(name), accepted.get(name))
    ]
    if outdated and (len(outdated) > 1 or not newest or _has_generation(others, pool, newest)):
        newest, outdated = newest + 1, [*contents]
    steps = [
        _step(
            pool,
            content,
            spec_of(pool, content, newest, len(contents)),
            in_pool.get(content.name),
        )
        for content in outdated
    ]
    return (
        *map(_deletion, blocking),
        *(step for step in steps if isinstance(step, ReplaceSlice)),
        *(step for step in steps if isinstance(step, CreateSlice)),
        *map(_deletion, others),
    )


def _is_current(
    pool: SlicePool, spec: Spec, previous: PublishedSlice | None, accepted: AcceptedSlice | None
) -> bool:
    """Return whether a published slice has the desired spec, or the stored version of it."""
    if previous is None or previous.owners != (pool.node_uid,):
        return False
    sent = normalized(spec)
    return previous.spec == sent or accepted == AcceptedSlice(sent, previous.spec)


def _has_generation(others: Iterable[PublishedSlice], pool: SlicePool, generation: int) -> bool:
    """Return whether one of the slices is in this generation of the pool."""
    return any(
        resource_slice.pool == pool.node and resource_slice.generation == generation
        for resource_slice in others
    )


def _step(
    pool: SlicePool, content: SliceContent, spec: Spec, previous: PublishedSlice | None
) -> CreateSlice | ReplaceSlice:
    if previous is None:
        return CreateSlice(content, new_document(pool, content, spec))
    return ReplaceSlice(content, changed_document(pool, previous, spec))


def _deletion(published: PublishedSlice) -> DeleteSlice:
    return DeleteSlice(published.name, published.uid, published.version)
