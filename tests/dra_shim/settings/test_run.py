"""`dra-shim run`: the flags, dranet's among them."""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from dra_shim.cli import main
from dra_shim.settings.common import StatePaths
from dra_shim.settings.listen_address import ListenAddress
from dra_shim.settings.providers import ProviderSettings
from dra_shim.settings.run import (
    KLOG,
    RunSettings,
    add_run_flags,
    settings_from,
    without_dranet,
)
from dranet_nri.errors import InvalidValueError
from dranet_nri.facts.host import node_name
from tests.fakes.called import called

pytestmark = pytest.mark.process


def parsed(*flags: str) -> RunSettings:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_run_flags(parser)
    return settings_from(parser.parse_args(flags))


def test_settings_without_flags_are_the_defaults() -> None:
    assert parsed() == RunSettings(node=node_name())


def test_flags_of_dranet_have_the_same_effect() -> None:
    settings = parsed(
        "--v=4", "--hostname-override=node-1", "--bind-address=:9178", "--filter=",
        "--kubelet-root-dir=/data/kubelet", "--kubeconfig=/etc/admin.conf",
        "--inventory-max-poll-interval=1m30s",
    )  # fmt: skip
    assert settings == RunSettings(
        node="node-1",
        kubeconfig=Path("/etc/admin.conf"),
        bind_address=ListenAddress("", 9178),
        kubelet_root=Path("/data/kubelet"),
        filter="",
        rescan_s=90.0,
        verbose=True,
    )


def test_empty_kubeconfig_selects_the_service_account() -> None:
    assert parsed("--kubeconfig=") == parsed()


def test_flags_of_dranet_without_effect_are_accepted_and_reported() -> None:
    settings = parsed(
        "--db-path", "/var/run/dranet/dranet.db", "--inventory-min-poll-interval=2s",
        "--inventory-poll-burst=5",
    )  # fmt: skip
    assert [name for name, _ in settings.ignored] == [
        "--db-path",
        "--inventory-min-poll-interval",
        "--inventory-poll-burst",
    ]
    assert all(cause for _, cause in settings.ignored)
    assert not parsed("-v", "2").verbose


@pytest.mark.parametrize("flag", ["--hook-path", "--db-path=", "--logtostderr"])
def test_ignored_flag_without_a_value_is_reported(flag: str) -> None:
    assert [name for name, _ in parsed(flag).ignored] == [flag.strip("=")]


@pytest.mark.parametrize("flag", ["--move-ib-interfaces", "--move-ib-interfaces=true"])
def test_move_ib_interfaces_true_is_the_default(flag: str) -> None:
    assert parsed(flag) == parsed()


@pytest.mark.parametrize("no", ["false", "False", "0", "f", "F", "FALSE"])
def test_ipoib_interfaces_can_stay_on_the_node(no: str) -> None:
    assert parsed(f"--move-ib-interfaces={no}") == replace(parsed(), move_ipoib=False)


def test_providers_use_flags_of_dranet() -> None:
    settings = parsed(
        "--cloud-provider-hint=azure", "--profile-provider=webhook",
        "--webhook-url=unix:///run/w.sock",
    )  # fmt: skip

    assert settings.providers == ProviderSettings("AZURE", "webhook", "unix:///run/w.sock")
    assert parsed("--cloud-provider-hint=", "--webhook-url=").providers == ProviderSettings()


@pytest.mark.parametrize(
    ("flags", "answers"),
    [
        (["--webhook-url=http://h"], True),
        (["--webhook-url=http://h", "--profile-provider=none"], False),
        (["--webhook-url=http://h", "--cloud-provider-hint=AWS"], False),
        (
            ["--webhook-url=http://h", "--cloud-provider-hint=AWS", "--profile-provider=webhook"],
            True,
        ),
        ([], False),
    ],
)
def test_webhook_profiles_depend_on_the_flags(flags: list[str], answers: bool) -> None:  # noqa: FBT001
    assert parsed(*flags).providers.webhook_has_profiles is answers


@pytest.mark.parametrize("flag", ["--profile-provider", "--cloud-provider-hint"])
def test_webhook_without_a_url_is_refused(flag: str) -> None:
    with pytest.raises(InvalidValueError, match=f"{flag}=webhook: needs --webhook-url"):
        parsed(f"{flag}=webhook")


@pytest.mark.parametrize(
    ("flag", "reason"),
    [
        ("--cloud-provider-hint=GKE", "must be one of GCE"),
        ("--webhook-url=ftp://h", "must be http"),
        ("--profile-provider=hook", "invalid choice"),
    ],
)
def test_unknown_provider_is_refused(flag: str, reason: str) -> None:
    with pytest.raises(argparse.ArgumentError, match=reason):
        parsed(flag)


def test_flags_of_dranets_next_release_are_accepted_and_reported() -> None:
    flags = (
        "--device-attach-timeout=30s", "--hook-path=/opt/dranet-hook", "--slaac-ready-timeout=5s",
        "--slaac-rollback-reserve=1s",
    )  # fmt: skip

    settings = parsed(*flags)

    assert [name for name, _ in settings.ignored] == [flag.split("=")[0] for flag in flags]
    assert all(cause for _, cause in settings.ignored)


def test_unknown_flag_is_refused() -> None:
    with pytest.raises(SystemExit):
        parsed("--slaac-ready-timeouts=5s")


def test_invalid_boolean_is_refused() -> None:
    with pytest.raises(argparse.ArgumentError, match="'maybe': must be true or false"):
        parsed("--move-ib-interfaces=maybe")


def test_klog_flags_are_accepted_and_reported() -> None:
    flags = [entry if "std" in entry else f"{entry}=1" for entry in KLOG]

    assert [name for name, _ in parsed("-v", "2", *flags).ignored] == list(KLOG)
    assert parsed("--log_dir", "/var/log", "--skip_headers").ignored[0][0] == "--log_dir"


@pytest.mark.parametrize(
    ("arguments", "accepted"),
    [
        (["/dranet", "--v=4"], ["--v=4"]),
        (["-hostname-override=n-1", "-v=4"], ["--hostname-override=n-1", "-v=4"]),
        (["-vmodule=driver=9", "-log_dir", "/x"], ["--vmodule=driver=9", "--log_dir", "/x"]),
        (["-logtostderr"], ["--logtostderr"]),
        (["-v", "4", "-v4", "-h"], ["-v", "4", "-v4", "-h"]),
        (["--filter", "/dranet", "--filter=-x"], ["--filter", "/dranet", "--filter=-x"]),
        ([], []),
    ],
)
def test_go_style_arguments_are_accepted(arguments: list[str], accepted: list[str]) -> None:
    assert without_dranet(arguments) == accepted


def test_full_command_line_of_dranet_is_accepted(tmp_path: Path) -> None:
    nowhere = tmp_path / "none"
    for name in ("plugins", "plugins_registry"):
        (tmp_path / name).mkdir()
    line = f"/dranet -v=4 -hostname-override=n-1 --vmodule=a=1 -kubeconfig={nowhere}"
    line += f" --kubelet-root-dir={tmp_path} --state-dir={tmp_path}/state"

    done = called(main, "run", *line.split(), cwd=tmp_path)

    assert done.returncode == 1, "a command line that is wrong ends otherwise"
    assert str(nowhere) in done.stderr


def test_own_flags_are_parsed() -> None:
    settings = parsed(
        "--state-dir", "/a", "--run-dir", "/b", "--shared", "true", "--azure-size", "Standard_X",
        "--first-valid-config", "--log-format", "json", "--verbose", "--include", "pci-*",
        "--exclude", "eth0", "--exclude", "mlx5_?", "--uplink-interfaces", "eth0,bond*",
    )  # fmt: skip
    assert settings.state == StatePaths(Path("/a"), Path("/b"))
    assert (settings.shared, settings.azure_size) == ("true", "Standard_X")
    assert (settings.include, settings.exclude) == (("pci-*",), ("eth0", "mlx5_?"))
    assert settings.uplinks == ("eth0", "bond*")
    assert settings.first_valid_config
    assert settings.log_json
    assert settings.verbose


@pytest.mark.parametrize("text", ["9177", ":65536", ""])
def test_invalid_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(argparse.ArgumentError, match="must be HOST:PORT"):
        parsed(f"--bind-address={text}")


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("1h1m1s", 3661.0), ("1.5s", 1.5), ("7", 7.0)]
)
def test_go_durations_are_parsed(text: str, seconds: float) -> None:
    assert parsed(f"--inventory-max-poll-interval={text}").rescan_s == seconds


@pytest.mark.parametrize("text", ["", "s", "1d", "-1s", "1s1", "0s", "nan", "0"])
def test_invalid_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(argparse.ArgumentError, match="--inventory-max-poll-interval"):
        parsed(f"--inventory-max-poll-interval={text}")


@pytest.mark.parametrize(
    ("text", "lists", "idle"),
    [
        ("", False, []),
        ("DRAListTypeAttributes=true", True, []),
        ("DRAListTypeAttributes=F, AllAlpha=1,", False, []),
        ("AllAlpha=true,AllBeta=true", True, []),
        (
            "PersistentResourceSliceAttributes=true",
            False,
            ["--feature-gates=PersistentResourceSliceAttributes"],
        ),
    ],
)
def test_feature_gates_match_dranet(text: str, lists: bool, idle: list[str]) -> None:  # noqa: FBT001
    settings = parsed(f"--feature-gates={text}")

    assert settings.numa_lists is lists
    assert [name for name, _ in settings.ignored] == idle


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("DRAListTypeAttribute=true", 'did you mean "DRAListTypeAttributes"'),
        ("DRAListTypeAttributes", "must be DRAListTypeAttributes=true or"),
        ("DRAListTypeAttributes=yes", "must be DRAListTypeAttributes=true or"),
    ],
)
def test_unknown_feature_gate_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(argparse.ArgumentError, match=reason):
        parsed(f"--feature-gates={text}")
