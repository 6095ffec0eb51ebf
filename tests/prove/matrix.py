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

from tests.prove import namespaces, observed_state
from tests.prove.environment import After, Failed, HostEnvironment, Loss
from tests.prove.scenario import CrashScenario
from tests.prove.shapes import Shape


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


def require_expected(environment: HostEnvironment, shape: Shape) -> None:
    """Record the expected state of the shape's pod, once.

    Raises:
        Failed: it does not even work undisturbed.
    """
    if shape.name not in environment.whole:
        scenario = CrashScenario(environment, shape)
        asyncio.run(scenario.record_expected())
        _clear(scenario)


def row(
    environment: HostEnvironment, shape: Shape, after: After, last: int, word: str = ""
) -> tuple[Row, bool]:
    """Play one row: death after event number last of those that have the word in them.

    Returns:
        The row, and whether the plugin died of that event.
    """
    scenario = CrashScenario(environment, shape)
    try:
        event, died = asyncio.run(scenario.run(after, last, word))
    except (Failed, ConnectionError, TimeoutError) as error:
        failed = error if isinstance(error, Failed) else Failed(Loss.HUNG, repr(error))
        died = scenario.site.died.exists()
        event = scenario.site.died.read_text() if died else "answered"
        scenario.destroy()
        scenario.give_names_back()
        environment.restore()
        return Row(shape.name, after, last, event, failed.loss, failed.detail), died
    _clear(scenario)
    return Row(shape.name, after, last, event), died


def _clear(scenario: CrashScenario) -> None:
    for pod in scenario.pods:
        if observed_state.exists(pod.id):
            namespaces.delete(pod.id)
    shutil.rmtree(scenario.site.root)


def rows(environment: HostEnvironment, shape: Shape, after: After) -> Iterator[Row]:
    """Run a row for every event, until the act ends before the trigger.

    Raises:
        Failed: the shape does not even work undisturbed.
    """
    for last in count(1):
        require_expected(environment, shape)
        result, died = row(environment, shape, after, last)
        yield result
        if not died:
            return
