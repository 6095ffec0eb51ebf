"""Prometheus's text, read as strictly as it reads it."""

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]


class Scrape:
    """The samples of one text.

    Attributes:
        families: their names, in order.
        values: by sample name and labels.
    """

    def __init__(self, text: str) -> None:
        """Parse text; AssertionError or ValueError if Prometheus would mind."""
        assert text.endswith("\n")
        declared = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
        assert len(declared) == len(set(declared)), "a family appears twice"
        self.families = tuple(declared)
        self.values: dict[tuple[str, Labels], float] = {}
        for family in text_string_to_metric_families(text):
            assert family.type != "unknown", f"{family.name} has no type"
            assert family.documentation
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self.values, f"{key} twice"
                self.values[key] = sample.value

    def value(self, name: str, **labels: str) -> float:
        """Return one sample; KeyError if there is none."""
        return self.values[name, frozenset(labels.items())]

    def changed(self, before: "Scrape") -> dict[tuple[str, Labels], float]:
        """Return what grew since, but for durations."""
        return {
            key: value - before.values.get(key, 0)
            for key, value in self.values.items()
            if value != before.values.get(key, 0) and not _is_duration(key[0])
        }


def counted(name: str, **labels: str) -> tuple[str, Labels]:
    """Return a key of Scrape.values."""
    return name, frozenset(labels.items())


def _is_duration(name: str) -> bool:
    return name.endswith(("_sum", "_bucket"))
