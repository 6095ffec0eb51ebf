"""The chart's schema knows its values and those of dranet's. Rendering: tests/system/cluster."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import yaml

from dra_shim.cloud.names import HINTS
from dra_shim.settings.run import IGNORED
from dra_shim.web.pages import pages
from dranet_nri.commands import run
from tests.manifests.test_base import VERSION
from tests.manifests.test_documents import PAGES

CHART = Path(__file__).parents[2] / "manifests/helm/dranet-nri"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
DRANETS = {
    "nameOverride", "fullnameOverride", "image.repository", "image.tag", "image.pullPolicy",
    "imagePullSecrets", "rbac.create", "podAnnotations", "podLabels", "logVerbosity",
    "metricsPort", "metricsPath", "args.filter", "args.dbPath", "args.inventoryMinPollInterval",
    "args.inventoryMaxPollInterval", "args.inventoryPollBurst", "args.moveIBInterfaces",
    "args.cloudProviderHint", "args.profileProvider", "args.webhookURL", "args.featureGates",
    "kubeletRootDir", "extraVolumes", "extraVolumeMounts", "nodeSelector", "affinity",
    "tolerations", "resources.requests", "resources.limits", "serviceAccount.annotations", "global",
}  # fmt: skip


def resolved(schema: Any) -> Any:
    """Return what a schema refers to."""
    reference = schema.get("$ref", "")
    return SCHEMA["definitions"][reference.rpartition("/")[2]] if reference else schema


def value_paths(schema: Any, path: str = "") -> Iterator[str]:
    """Yield the paths of all values that a schema names."""
    for name, subschema in schema.get("properties", {}).items():
        inner = resolved(subschema)
        if "properties" in inner:
            yield from value_paths(inner, f"{path}{name}.")
        else:
            yield f"{path}{name}"


def closed(schema: Any) -> bool:
    """Whether a schema refuses what it does not name, all the way down."""
    if "properties" not in schema:
        return True
    inner = (resolved(subschema) for subschema in schema["properties"].values())
    return schema.get("additionalProperties") is False and all(map(closed, inner))


def given(values: Any, path: str, paths: set[str]) -> Iterator[str]:
    """Yield the paths of values, as deep as the schema names them."""
    for name, value in values.items():
        here = f"{path}{name}"
        if here in paths:
            yield here
        else:
            yield from given(value, f"{here}.", paths)


def test_values_are_in_the_schema_with_defaults() -> None:
    paths = set(value_paths(SCHEMA))

    assert set(given(VALUES, "", paths)) == paths


def test_unknown_value_is_refused() -> None:
    assert closed(SCHEMA)


def test_values_of_dranets_chart_are_known() -> None:
    assert set(value_paths(SCHEMA)) >= DRANETS


def test_probes_use_served_paths() -> None:
    served = {*pages(Mock(), Mock(), Mock())}

    assert {*SCHEMA["properties"]["metricsPath"]["enum"]} == served - {"/readyz"}


def test_clouds_are_those_of_the_flag() -> None:
    hints = SCHEMA["properties"]["args"]["properties"]["cloudProviderHint"]["enum"]

    assert {*hints} == {None, "", *HINTS}


def test_documented_flags_of_the_plugin_have_values() -> None:
    parser = argparse.ArgumentParser()
    run.add_flags(parser)
    flags = {*parser.format_help().split()} & {
        flag for page in PAGES for flag in re.findall(r"--[a-z-]+", page.read_text())
    }
    template = (CHART / "templates/daemonset.yaml").read_text().partition("- name: nri")[2]

    assert {"--slaac-ready-timeout", "--vm-runtimes"} <= flags
    unset = {flag for flag in flags if flag.removeprefix("--") not in template}
    assert unset - {"--help"} == set()


def test_values_without_effect_are_those_of_ignored_flags() -> None:
    text = (CHART / "values.yaml").read_text().partition("# Taken,")[2].partition("\n# ")[0]
    names = re.findall(r"^  (\w+):", text, re.MULTILINE)

    flags = {"--" + re.sub("([A-Z])", r"-\1", name).lower() for name in names}
    assert flags
    assert flags <= {flag for flag, _ in IGNORED}


def test_chart_has_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
