"""The node in a box with CRI-O, before the plugin runs in it, with the documented settings."""

import subprocess
import tomllib
from pathlib import Path

from tests.box.cri import Cri
from tests.box.crio import SNIPPET
from tests.box.runtime import Runtime
from tests.box.smoke import (
    test_cdi_device_without_a_spec_is_refused_until_one_appears,
    test_pod_lives_and_ends_with_its_own_network,
    test_pods_survive_a_runtime_that_is_killed,
    test_runtime_listens_for_plugins,
)

__all__ = [
    "test_cdi_device_without_a_spec_is_refused_until_one_appears",
    "test_pod_lives_and_ends_with_its_own_network",
    "test_pods_survive_a_runtime_that_is_killed",
    "test_runtime_listens_for_plugins",
]


def test_host_network_pod_is_shown_with_the_namespace_of_the_host(cri: Cri) -> None:
    pod = cri.run_pod("hostnet", host_network=True)

    netns = cri.netns(pod)

    assert netns is not None
    assert netns.samefile("/proc/self/ns/net")


def test_nri_and_cdi_are_enabled_and_the_documented_settings_are_accepted(
    runtime: Runtime, tmp_path: Path
) -> None:
    (tmp_path / SNIPPET.name).write_bytes(SNIPPET.read_bytes())

    as_it_comes = shown(runtime, "config", "--default")
    as_told = shown(runtime, "--config-dir", str(tmp_path), "config")

    assert as_it_comes["nri"]["enable_nri"] is True
    assert as_it_comes["nri"]["nri_listen"] == "/var/run/nri/nri.sock"
    assert as_it_comes["runtime"]["cdi_spec_dirs"] == ["/etc/cdi", "/var/run/cdi"]
    assert as_it_comes["nri"]["nri_plugin_request_timeout"] == "2s"
    assert as_told["nri"]["nri_plugin_request_timeout"] == "10s"  # defaults are comments here


def shown(runtime: Runtime, *arguments: str) -> dict[str, dict[str, object]]:
    """Return the settings that CRI-O prints, with no file but those named read."""
    command = (runtime.program, "--config", "", *arguments)
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    settings: dict[str, dict[str, object]] = tomllib.loads(done.stdout)["crio"]
    return settings
