"""Prometheus metrics, in exposition format 0.0.4 (prometheus.io, "Exposition formats").

Rules:
1. An update is cheap: hooks with a deadline update metrics, too.
2. One thread updates metrics and renders the text.
3. A label has few values. Known values start at 0: otherwise the first increment of a series is
   invisible.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from math import inf, isinf, isnan
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# Prometheus's default, as in dranet: from a move without waits to a runtime's timeout.
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

Values = tuple[str, ...]  # of the labels, in their order


class MetricFamily(ABC):
    """The samples of one metric name."""

    def __init__(self, name: str, kind: str, text: str, labels: Values) -> None:
        """Start without samples; text is one sentence of help, labels are label names."""
        self._name = name
        self._labels = labels
        self._head = f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
        self._text = ""  # cached; "" after a change

    def text(self) -> str:
        """Return the family in the exposition format."""
        if not self._text:
            self._text = self._head + "".join(self._lines())
        return self._text

    @abstractmethod
    def _lines(self) -> Iterator[str]:
        """Return the lines of the samples."""

    def _line(self, values: Values, value: float) -> str:
        return _line(self._name, self._labels, values, value)


class Counter(MetricFamily):
    """A value that only grows."""

    def __init__(
        self, name: str, text: str, labels: Values = (), initial: Iterable[Values] = ((),)
    ) -> None:
        """Count from 0.

        Args:
            name: ends in _total by convention.
            text: one sentence of help.
            labels: label names.
            initial: label values that exist from the start.
        """
        super().__init__(name, "counter", text, labels)
        self._counts: dict[Values, float] = dict.fromkeys(_of(labels, initial), 0)

    def add(self, *values: str, by: float = 1) -> None:
        """Add to the series with these label values."""
        self._counts[values] = self._counts.get(values, 0) + by
        self._text = ""

    def _lines(self) -> Iterator[str]:
        return (self._line(values, count) for values, count in self._counts.items())


class Gauge(MetricFamily):
    """A current value."""

    def __init__(self, name: str, text: str, labels: Values = ()) -> None:
        """Start without samples."""
        super().__init__(name, "gauge", text, labels)
        self._now: Mapping[Values, float] = {}

    def set(self, value: float) -> None:
        """Set the value; for a gauge without labels."""
        self.set_all({(): value})

    def set_all(self, now: Mapping[Values, float]) -> None:
        """Replace all samples, by label values."""
        if now != self._now:
            self._now = dict(now)
            self._text = ""

    def _lines(self) -> Iterator[str]:
        return (self._line(values, value) for values, value in self._now.items())


class Histogram(MetricFamily):
    """Durations in buckets by upper bound."""

    def __init__(
        self,
        name: str,
        text: str,
        labels: Values = (),
        initial: Iterable[Values] = ((),),
        bounds: Sequence[float] = SECONDS,
    ) -> None:
        """Start at 0; arguments as for Counter, and the ascending upper bounds of the buckets."""
        super().__init__(name, "histogram", text, labels)
        self._bounds = (*bounds, inf)
        self._counts: dict[Values, list[int]] = {}
        self._sums: dict[Values, float] = {}
        for values in _of(labels, initial):
            self._begin(values)

    def observe(self, value: float, *values: str) -> None:
        """Count one observation for these label values."""
        if values not in self._counts:
            self._begin(values)
        self._counts[values][bisect_left(self._bounds, value)] += 1
        self._sums[values] += value
        self._text = ""

    def _begin(self, values: Values) -> None:
        self._counts[values] = [0] * len(self._bounds)
        self._sums[values] = 0.0

    def _lines(self) -> Iterator[str]:
        name, labels = self._name, (*self._labels, "le")
        for values, counts in self._counts.items():
            sums = tuple(accumulate(counts))
            for bound, count in zip(self._bounds, sums, strict=True):
                yield _line(f"{name}_bucket", labels, (*values, _number(bound)), count)
            yield _line(f"{name}_sum", self._labels, values, self._sums[values])
            yield _line(f"{name}_count", self._labels, values, sums[-1])


def families_of(*parts: object) -> Iterator[MetricFamily]:
    """Yield the metric families among the attributes of objects, in the order of definition."""
    for part in parts:
        yield from (value for value in vars(part).values() if isinstance(value, MetricFamily))


def exposition(families: Iterable[MetricFamily]) -> str:
    """Return the text of families with distinct names."""
    return "".join(family.text() for family in families)


def _of(labels: Values, initial: Iterable[Values]) -> tuple[Values, ...]:
    """Return the known values with one entry per label; the default is for no labels."""
    return tuple(values for values in initial if len(values) == len(labels))


def _line(name: str, labels: Values, values: Values, value: float) -> str:
    pairs = ",".join(
        f'{label}="{_quoted(text)}"' for label, text in zip(labels, values, strict=True)
    )
    return f"{name}{{{pairs}}} {_number(value)}\n" if pairs else f"{name} {_number(value)}\n"


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _number(value: float) -> str:
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if isnan(value):
        return "NaN"
    return str(value)
