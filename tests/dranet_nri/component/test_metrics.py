"""Text format of the metrics, read back by the Python parser of Prometheus."""

from math import inf, nan

import pytest

from dranet_nri.component.metrics import Counter, Gauge, Histogram, exposition, families_of
from tests.fakes.scrape import Scrape


def test_known_label_values_are_exposed_at_zero() -> None:
    counter = Counter("a_total", "A.", ("result",), (("good",), ("bad",)))
    plain = Counter("b_total", "B.")

    scrape = Scrape(exposition((counter, plain)))

    assert scrape.value("a_total", result="good") == 0
    assert scrape.value("a_total", result="bad") == 0
    assert scrape.value("b_total") == 0


def test_counter_counts_known_and_new_labels() -> None:
    counter = Counter("a_total", "A.", ("result",), (("good",),))

    counter.add("good")
    before = counter.text()
    counter.add("good", by=2)
    counter.add("new")

    scrape = Scrape(counter.text())
    assert scrape.value("a_total", result="good") == 3
    assert scrape.value("a_total", result="new") == 1
    assert Scrape(before).value("a_total", result="good") == 1


def test_gauge_exposes_only_the_current_values() -> None:
    gauge = Gauge("g", "G.", ("phase",))
    assert Scrape(gauge.text()).values == {}

    gauge.set_all({("one",): 1, ("two",): 2})
    gauge.text()
    gauge.set_all({("two",): 3})

    assert list(Scrape(gauge.text()).values.values()) == [3]
    assert Scrape(gauge.text()).value("g", phase="two") == 3


def test_gauge_with_an_unchanged_value_reuses_its_text() -> None:
    gauge = Gauge("g", "G.")
    gauge.set(1)
    before = gauge.text()

    gauge.set(1)

    assert gauge.text() is before


def test_bucket_counts_all_observations_up_to_its_bound() -> None:
    histogram = Histogram("h", "H.", ("kind",), bounds=(0.1, 1.0))

    for seconds in (0.1, 0.11, 1.0, 7.0):
        histogram.observe(seconds, "x")

    scrape = Scrape(histogram.text())
    buckets = {le: scrape.value("h_bucket", kind="x", le=le) for le in ("0.1", "1.0", "+Inf")}
    assert buckets == {"0.1": 1, "1.0": 3, "+Inf": 4}
    assert scrape.value("h_count", kind="x") == 4
    assert scrape.value("h_sum", kind="x") == pytest.approx(8.21)


def test_histogram_without_labels_begins_at_0() -> None:
    scrape = Scrape(Histogram("h", "H.").text())

    assert scrape.value("h_count") == 0
    assert scrape.value("h_bucket", le="10.0") == 0


@pytest.mark.parametrize("value", ['say "no"', "C:\\new", "two\nlines", "ä", ""])
def test_label_value_is_parsed_back_unchanged(value: str) -> None:
    counter = Counter("a_total", "A.", ("text",))

    counter.add(value)

    assert Scrape(counter.text()).value("a_total", text=value) == 1


@pytest.mark.parametrize("value", [0, 7, 0.25, 1e-9, 1.7e300, inf, -inf])
def test_gauge_value_is_parsed_back_unchanged(value: float) -> None:
    gauge = Gauge("g", "G.")

    gauge.set(value)

    assert Scrape(gauge.text()).value("g") == value


def test_nan_is_exposed_as_nan() -> None:
    gauge = Gauge("g", "G.")

    gauge.set(nan)

    assert gauge.text().endswith("\ng NaN\n")


def test_families_are_those_of_the_objects_in_the_order_of_definition() -> None:
    class Part:
        def __init__(self, *names: str) -> None:
            self.calls, self.size = (Gauge(name, "A.") for name in names)
            self.other = "c"

    families = families_of(Part("b", "a"), Part("d", "c"))

    assert [family.text().split()[2] for family in families] == ["b", "a", "d", "c"]
