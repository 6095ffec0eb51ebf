"""Crash matrix: the plugin dies after every event of every act, and another one takes over.

A row is one death. It passes where the pod then has all its NICs, configured as without a death,
and its gates open; or, if the pod is gone or can't have them, where the host is as it was and every
gate is closed. At the moment of death a gate may be open only while its NICs are in the pod:
the runtime starts the containers of an open gate without asking a dead plugin.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from tests.prove import looks, namespaces
from tests.prove.scene import Scene
from tests.prove.shapes import Shape
from tests.prove.stage import After, Failed, Loss, Stage


@dataclass(frozen=True, slots=True)
class Row:
    """One death and what became of it.

    Attributes:
        event: what the plugin had just done when it died.
        loss: None where all is well.
    """

    shape: str
    after: After
    number: int
    event: str
    loss: Loss | None = None
    detail: str = ""


def rehearsed(stage: Stage, shape: Shape) -> None:
    """Learn how the shape's pod looks; once.

    Raises:
        Failed: it does not even work undisturbed.
    """
    if shape.name not in stage.whole:
        scene = Scene(stage, shape)
        asyncio.run(scene.rehearse())
        _clear(scene)


def row(stage: Stage, shape: Shape, after: After, last: int, word: str = "") -> tuple[Row, bool]:
    """Play one row: death after event number last of those that have the word in them.

    Returns:
        The row, and whether the plugin died of that event.
    """
    scene = Scene(stage, shape)
    try:
        event, died = asyncio.run(scene.play(after, last, word))
    except (Failed, ConnectionError, TimeoutError) as error:
        failed = error if isinstance(error, Failed) else Failed(Loss.STUCK, repr(error))
        died = scene.site.died.exists()
        event = scene.site.died.read_text() if died else "answered"
        scene.destroy()
        scene.give_names_back()
        stage.restore()
        return Row(shape.name, after, last, event, failed.loss, failed.detail), died
    _clear(scene)
    return Row(shape.name, after, last, event), died


def _clear(scene: Scene) -> None:
    for pod in scene.pods:
        if looks.exists(pod.id):
            namespaces.delete(pod.id)
    shutil.rmtree(scene.site.root)


def rows(stage: Stage, shape: Shape, after: After) -> Iterator[Row]:
    """Play a row for every event, until the act outruns the fuse.

    Raises:
        Failed: the shape does not even work undisturbed.
    """
    for last in count(1):
        rehearsed(stage, shape)
        played, died = row(stage, shape, after, last)
        yield played
        if not died:
            return
