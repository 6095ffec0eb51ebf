"""Socket paths below a kubelet directory of any length."""

from pathlib import Path

import pytest

from dra_shim.kubeletplugin import Sockets, sockets_of
from dra_shim.kubeletplugin.sockets import MAX_PATH
from dranet_nri.errors import InvalidValueError

ROOT = Path("/var/lib/kubelet")
UID = "5a3c9f3e-0000-4000-8000-000000000001"
HASHED = "dra-kP7otsGY5Rs.sock"
LONG_DRIVER = "d" * 63


def root_of(length: int) -> Path:
    return Path("/" + "k" * (length - 1))


def test_default_socket_names() -> None:
    assert sockets_of(ROOT, "dra.net") == Sockets(
        ROOT / "plugins_registry/dra.net-reg.sock",
        ROOT / "plugins/dra.net/dra.sock",
        ROOT / "plugins/dra.net/lock",
    )


def test_overlapping_pods_have_own_sockets_and_one_lock() -> None:
    assert sockets_of(ROOT, "dra.net", UID) == Sockets(
        ROOT / f"plugins_registry/dra.net-{UID}-reg.sock",
        ROOT / f"plugins/dra.net/dra-{UID}.sock",
        ROOT / "plugins/dra.net/lock",
    )


@pytest.mark.parametrize(
    ("length", "registration"),
    [
        (36, f"dra.net-{UID}-reg.sock"),
        (37, "dra.net-kP7otsGY5Rs-reg.sock"),
        (61, "dra.net-kP7otsGY5Rs-reg.sock"),
    ],
)
def test_long_registration_name_is_shortened(length: int, registration: str) -> None:
    found = sockets_of(root_of(length), "dra.net", UID).registration

    assert found.name == registration
    assert (len(str(found)) == MAX_PATH) is (length != 37)


@pytest.mark.parametrize(("length", "service"), [(45, f"dra-{UID}.sock"), (46, HASHED)])
def test_long_service_name_is_shortened(length: int, service: str) -> None:
    found = sockets_of(root_of(length), "dra.net", UID).service

    assert found.name == service
    assert len(str(found)) <= MAX_PATH


@pytest.mark.parametrize(
    ("length", "instance", "registration"),
    [
        (17, "", f"{LONG_DRIVER}-reg.sock"),
        (18, "", "dra-Kp1Sa0UdiXDAkxm4M9JVJg-reg.sock"),
        (5, UID, f"{LONG_DRIVER}-kP7otsGY5Rs-reg.sock"),
    ],
)
def test_long_driver_name_is_shortened_last(length: int, instance: str, registration: str) -> None:
    assert sockets_of(root_of(length), LONG_DRIVER, instance).registration.name == registration


def test_shortened_names_of_instances_differ() -> None:
    found = {
        sockets_of(root_of(6), LONG_DRIVER, entry).registration.name for entry in ("", UID, "x")
    }

    assert len(found) == 3


def test_too_long_path_is_refused_with_a_remedy() -> None:
    assert len(str(sockets_of(root_of(73), "dra.net").registration)) == MAX_PATH

    with pytest.raises(InvalidValueError, match="is 108 bytes long") as caught:
        sockets_of(root_of(74), "dra.net")

    assert str(caught.value).startswith("--kubelet-root-dir: /kkkk")
    assert "to a shorter path" in str(caught.value)
