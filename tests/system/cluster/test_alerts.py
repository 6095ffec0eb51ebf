"""Alert rules, evaluated by promtool: each fires on its fault, and none on a healthy node."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from tests.capability import lacking
from tests.system.cluster.installed import MANIFESTS

RULES: Final = MANIFESTS / "helm/dranet-nri/files/alerts.yaml"
GROWING: Final = "0+1x60"  # 1 more each minute for an hour
CONSTANT: Final = "3x60"
# alert: series, and its values on a faulty and on a healthy node
CASES: Final = {
    "DranetDriverDown": ('up{job="dranet",%s}', "0x60", "1x60"),
    "DranetDriverAbsent": ('up{job="dranet",%s}', "_x60", "1x60"),
    "DranetDriverNotRegistered": ("dra_shim_registered{%s}", "0x60", "1x60"),
    "DranetPluginNotServing": ("dranet_nri_serving{%s}", "0x60", "1x60"),
    "DranetPluginNotAlive": ("dra_shim_plugin_alive{%s}", "0x60", "1x60"),
    "DranetPluginMetricsOld": (
        "dra_shim_plugin_heartbeat_age_seconds{%s}", "0+60x60", "5x60",
    ),
    "DranetClaimFailures": ("dra_shim_claim_failures_total{%s}", GROWING, CONSTANT),
    "DranetAttachFailures": (
        'dranet_nri_attach_duration_seconds_count{result="failed",%s}', GROWING, CONSTANT,
    ),
    "DranetPodsRefused": ("dranet_nri_refusals_total{%s}", GROWING, CONSTANT),
    "DranetContainersWaiting": (
        'dranet_nri_gate_openings_total{result="failed",%s}', GROWING, CONSTANT,
    ),
    "DranetDeviceNotRestored": ("dranet_nri_pending_repairs{%s}", "1x60", "0x60"),
    "DranetThreadHung": ("dranet_nri_hung_threads{%s}", "1x60", "0x60"),
    "DranetRecordUnusable": ("dranet_nri_unusable_records{%s}", "1x60", "0x60"),
    "DranetDeviceLost": ("dranet_nri_claims_lost_total{%s}", GROWING, CONSTANT),
    "DranetDeviceUnhealthy": ('dra_shim_devices{health="unhealthy",%s}', "2x60", "0x60"),
    "DranetDeviceNotPublished": ("dra_shim_devices_refused_total{%s}", GROWING, CONSTANT),
}  # fmt: skip
WITHOUT_NODE: Final = "DranetDriverAbsent"
FIRING: Final = 'count by (alertname, instance) (ALERTS{alertstate="firing"})'


def promtool(*arguments: str | Path) -> str:
    """Run promtool; return what it said."""
    root = os.environ.get("BOX_PROMTOOL")
    if not root:
        lacking("the root of image promtool", "run ./hack/test cluster")
    loader = (f"{root}/usr/lib64/ld-linux-x86-64.so.2", "--library-path")
    command = (*loader, f"{root}/usr/lib/x86_64-linux-gnu", f"{root}/usr/bin/promtool", *arguments)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def evaluation(series: dict[str, str], firing: list[str]) -> dict[str, Any]:
    """Return a test of promtool: after 45 minutes of the series, these alerts fire on node-a."""
    nodes = {name: "" if name == WITHOUT_NODE else ', instance="node-a"' for name in firing}
    samples = [
        {"labels": f'{{alertname="{name}"{node}}}', "value": 1} for name, node in nodes.items()
    ]
    return {
        "interval": "1m",
        "input_series": [
            {"series": name % 'instance="node-a"', "values": values}
            for name, values in series.items()
        ],
        "promql_expr_test": [{"expr": FIRING, "eval_time": "45m", "exp_samples": samples}],
    }


def test_all_rules_are_valid() -> None:
    assert f"{len(CASES)} rules found" in promtool("check", "rules", RULES)


def test_alert_fires_only_on_its_fault(tmp_path: Path) -> None:
    found = yaml.safe_load(RULES.read_text())["groups"]
    assert {rule["alert"] for group in found for rule in group["rules"]} == CASES.keys()
    healthy = {series: values for series, _, values in CASES.values()}
    tests = [evaluation(healthy, [])]
    for alert, (series, faulty, _) in CASES.items():
        tests.append(evaluation(healthy | {series: faulty}, [alert]))
    path = tmp_path / "tests.json"
    path.write_text(
        json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests})
    )

    promtool("test", "rules", path)
