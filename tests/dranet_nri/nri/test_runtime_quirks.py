"""Differences between container runtimes, by name and version."""

import pytest

from dranet_nri.nri.runtime_quirks import forgets_rejected_sandboxes


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("containerd", "1.7.24~ds1"),
        ("containerd", "v1.7.27"),
        ("containerd", "v2.2.6"),
        ("containerd", "2.2.7+ds1-1"),
        ("containerd", "v2.3.3"),
        ("containerd", "v2.3.4-rc.1"),
        ("containerd", "v2.4.0-beta.0"),
        ("containerd", "v3.0.0"),
        ("cri-o", "1.34.0"),
        ("cri-o", ""),
    ],
)
def test_rejected_sandbox_is_removed_by_the_runtime(name: str, version: str) -> None:
    assert forgets_rejected_sandboxes(name, version)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("containerd", "2.1.9+ds1"),
        ("containerd", "v2.0.0"),
        ("containerd", "v2.2.5"),
        ("containerd", "v2.2.6-rc.1"),
        ("containerd", "v2.3.2"),
        ("containerd", "2.3.3~rc.0"),
        ("containerd", "(devel)"),
        ("containerd", ""),
        ("", ""),
        ("another", "9.9.9"),
    ],
)
def test_rejected_sandbox_is_kept_or_unknown(name: str, version: str) -> None:
    assert not forgets_rejected_sandboxes(name, version)
