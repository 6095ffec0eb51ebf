"""Kernel faults that a test injects into the plugin."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from tests.box.faulty import FAULTS, HELD
from tests.box.plugin import Plugin
from tests.box.waiting import wait_until

_numbers = count()


class Fault:
    """A step that the kernel does not return from until the fault ends."""

    def __init__(self, name: str, *patterns: str, refuse: bool) -> None:
        self._path = FAULTS / name
        self._words = patterns
        self._refuse = refuse

    def begin(self) -> None:
        """Put it in the way."""
        staged = self._path.with_name(f".{self._path.name}")
        staged.write_text(json.dumps({"words": self._words, "refuse": self._refuse}))
        staged.rename(self._path)

    def end(self) -> None:
        """Let the kernel go on."""
        self._path.unlink(missing_ok=True)

    @property
    def steps(self) -> list[str]:
        """Return what threads hang at now."""
        return [mark.read_text() for mark in HELD.glob(f"{self._path.name}.*")]

    def wait(self) -> None:
        """Return once a thread hangs."""
        wait_until(f"a thread to hang at {self._words}", lambda: self.steps)


@contextmanager
def fault(*patterns: str, refuse: bool = False) -> Iterator[Fault]:
    """Let every step that has all the words in it hang; with refuse, it fails when that ends."""
    FAULTS.mkdir(exist_ok=True)
    HELD.mkdir(exist_ok=True)
    made = Fault(str(next(_numbers)), *patterns, refuse=refuse)
    made.begin()
    try:
        yield made
    finally:
        made.end()


class FaultyPlugin(Plugin):
    """The plugin as a process of its own, on a kernel that has faults."""

    command: tuple[str, ...] = (sys.executable, "-m", "tests.box.faulty")

    def said(self, *patterns: str) -> int:
        """Return how many lines since its last start have all the words in them."""
        return sum(all(word in line for word in patterns) for line in self.since().splitlines())

    def wait_said(self, *patterns: str) -> None:
        """Return once it has said that."""
        wait_until(f"the plugin to say {patterns}", lambda: self.said(*patterns))
