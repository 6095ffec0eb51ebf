"""Alerts, dashboard and scrapes: their metrics are the code's, their runbooks are in the documents.

tests/system/cluster/test_alerts.py evaluates the expressions.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
COMPONENT = ROOT / "manifests/components/monitoring"
SERVICE = ROOT / "manifests/components/monitoring-service"
CHART = ROOT / "manifests/helm/dranet-nri"
ALERTS = yaml.safe_load((COMPONENT / "alerts.yaml").read_text())["spec"]
DASHBOARD = json.loads((COMPONENT / "dashboard.json").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
NAME = re.compile(r"\b(?:dranet_(?:nri|driver)|dra_shim)_[a-z_]+")
UP = 'up{job="dranet"}'  # of Prometheus itself


def declared() -> Iterator[str]:
    """Yield the series of the metrics that the code declares."""
    for path in ("dra_shim/web", "dranet_nri/attach"):
        for file in (ROOT / path).glob("*.py"):
            for name in re.findall(f'"({NAME.pattern})"', file.read_text()):
                yield from (name, f"{name}_bucket", f"{name}_count", f"{name}_sum")


METRICS = {*declared(), UP}


def expressions() -> Iterator[str]:
    """Yield every expression of the alerts and of the dashboard."""
    yield from (rule["expr"] for rule in RULES)
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel["targets"])


def anchors(text: str) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", text, re.M)
    titles = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in found)
    return {heading.replace(" ", "-") for heading in titles}


@pytest.mark.parametrize("expression", sorted({*expressions()}))
def test_metrics_of_rules_and_panels_exist(expression: str) -> None:
    used = NAME.findall(expression) + re.findall(re.escape(UP), expression)

    assert used
    assert {*used} <= METRICS


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_runbooks_of_alerts_exist(rule: Any) -> None:
    path, _, anchor = rule["annotations"]["runbook_url"].partition("#")

    assert anchor in anchors((ROOT / path).read_text())
    assert rule["labels"]["severity"] in {"critical", "warning"}


def test_chart_and_component_have_the_same_alerts_and_dashboard() -> None:
    assert yaml.safe_load((CHART / "files/alerts.yaml").read_text()) == ALERTS
    assert (CHART / "files/dashboard.json").read_text() == (
        COMPONENT / "dashboard.json"
    ).read_text()


def test_panels_have_distinct_names_and_positions() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len(panels)
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = {name for text in expressions() for name in re.findall(r"\$(\w+)", text)}
    assert used - {"__rate_interval"} <= variables


def test_scrapes_select_the_port_of_the_driver() -> None:
    daemon_set = yaml.safe_load((ROOT / "manifests/base/daemonset.yaml").read_text())
    labels = daemon_set["spec"]["template"]["metadata"]["labels"]
    ports = daemon_set["spec"]["template"]["spec"]["containers"][0]["ports"]
    service = yaml.safe_load((SERVICE / "service.yaml").read_text())
    pods = yaml.safe_load((COMPONENT / "podmonitor.yaml").read_text())["spec"]
    services = yaml.safe_load((SERVICE / "servicemonitor.yaml").read_text())["spec"]

    assert {*pods["selector"]["matchLabels"].items()} <= {*labels.items()}
    assert {*service["spec"]["selector"].items()} <= {*labels.items()}
    selector = services["selector"]["matchLabels"]
    assert {*selector.items()} <= {*service["metadata"]["labels"].items()}
    names = [port["name"] for port in ports]
    assert pods["podMetricsEndpoints"][0]["port"] in names
    assert service["spec"]["ports"][0]["targetPort"] in names
    assert services["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    for endpoint in (pods["podMetricsEndpoints"][0], services["endpoints"][0]):
        targets = [entry["targetLabel"] for entry in endpoint["relabelings"]]
        assert targets == ["instance", "job"]
        assert f'up{{job="{endpoint["relabelings"][1]["replacement"]}"}}' == UP
