"""The probe in its child process, with a stand-in for pyverbs; tests/system/vm has pyverbs."""

from pathlib import Path
from textwrap import dedent

import pytest

from dranet_nri.facts import verbs
from dranet_nri.facts.verbs import VerbsDevice, VerbsFailure, VerbsPort, probe

pytestmark = pytest.mark.process


DEVICE = """
    from types import SimpleNamespace as Attributes
    from pyverbs.pyverbs_error import PyverbsError

    class Context:
        def __init__(self, *, name):
            if name == "gone":
                raise PyverbsError("Failed to find\\n device gone")
        def query_device(self):
            return Attributes(max_qp=131072, max_qp_wr=32768, max_cq=16777216, max_mr=16777216,
                        max_mr_size=2**64 - 1, atomic_caps=1, phys_port_cnt=1)
        def query_device_ex(self):
            return Attributes(odp_caps=Attributes(general_caps=3))
        def query_port(self, number):
            return Attributes(active_mtu=5, max_mtu=5, active_width=2, active_speed=128,
                        gid_tbl_len=255, pkey_tbl_len=128)
        def close(self):
            pass
"""


def with_pyverbs(root: Path, patch: pytest.MonkeyPatch, device: str = DEVICE) -> None:
    package = root / "pyverbs"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "pyverbs_error.py").write_text("class PyverbsError(Exception): pass\n")
    (package / "device.py").write_text(dedent(device))
    patch.syspath_prepend(str(root))


def test_opened_device_has_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_pyverbs(tmp_path, monkeypatch)

    assert verbs.is_installed()
    assert probe("mlx5_0") == VerbsDevice(
        name="mlx5_0",
        max_qp=131072,
        max_qp_wr=32768,
        max_cq=16777216,
        max_mr=16777216,
        max_mr_size=2**64 - 1,
        atomic="device",
        on_demand_paging=True,
        ports=(VerbsPort(1, 4096, 4096, 4, 100_000, 255, 128),),
    )


def test_extended_speed_takes_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extended = DEVICE.replace("active_speed=128", "active_speed=128, active_speed_ex=256")
    with_pyverbs(tmp_path, monkeypatch, extended)

    reported = probe("mlx5_0")

    assert isinstance(reported, VerbsDevice)
    assert reported.ports[0].lane_mbps == 200_000


def test_missing_odp_capabilities_are_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_query = DEVICE.replace(
        "return Attributes(odp_caps", "raise PyverbsError('95'); Attributes(odp_caps"
    )
    with_pyverbs(tmp_path, monkeypatch, without_query)

    reported = probe("mlx5_0")

    assert isinstance(reported, VerbsDevice)
    assert reported.on_demand_paging is None


def test_device_that_cannot_be_opened_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_pyverbs(tmp_path, monkeypatch)

    assert probe("gone") == VerbsFailure("gone", "Failed to find device gone")


def test_crashed_probe_is_a_failure_of_its_device_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_pyverbs(tmp_path, monkeypatch, "import os\nos._exit(7)\n")

    assert probe("mlx5_0") == VerbsFailure("mlx5_0", "the probe ended with 7")


def test_hung_probe_times_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_pyverbs(tmp_path, monkeypatch, "import signal\nsignal.pause()\n")

    reported = probe("mlx5_0", timeout_s=0.5)

    assert reported == VerbsFailure("mlx5_0", "no answer within 0.5 s: its driver may hang")


def test_unloadable_pyverbs_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_pyverbs(tmp_path, monkeypatch)
    (tmp_path / "pyverbs/pyverbs_error.py").write_text("raise ImportError('wrong Python')\n")

    assert probe("mlx5_0") == VerbsFailure("mlx5_0", "pyverbs cannot be used: wrong Python")


@pytest.mark.parametrize(("mtu", "size"), [(0, 0), (1, 256), (3, 1024), (5, 4096), (6, 0)])
def test_mtu_enum_is_converted_to_bytes(mtu: int, size: int) -> None:
    assert verbs.mtu_bytes(mtu) == size


@pytest.mark.parametrize(("width", "lanes"), [(1, 1), (2, 4), (16, 2), (8, 12), (3, 0)])
def test_width_enum_is_converted_to_lanes(width: int, lanes: int) -> None:
    assert verbs.lanes(width) == lanes


def test_unknown_speed_has_no_rate() -> None:
    assert verbs.lane_mbps(7) == 0
