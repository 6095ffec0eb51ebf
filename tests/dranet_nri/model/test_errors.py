"""Error texts: operation, reason, and failed undo steps."""

from errno import EACCES, EBADF, EBUSY, ENODEV, ENOSPC

import pytest

from dranet_nri.errors import AttachError, ConfigError, KernelError, OwnedError, os_error_text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        pytest.param(KernelError("move link 3", EBUSY), "move link 3: EBUSY", id="errno-by-name"),
        pytest.param(
            KernelError("add route", EBUSY, "Nexthop has invalid gateway"),
            "add route: EBUSY (Nexthop has invalid gateway)",
            id="with-the-kernels-words",
        ),
        pytest.param(KernelError("dump", 12345), "dump: errno 12345", id="errno-without-a-name"),
    ],
)
def test_kernel_error_contains_the_operation_and_the_reason(error: KernelError, text: str) -> None:
    assert str(error) == text


def test_missing_device_counts_as_gone_and_a_busy_device_does_not() -> None:
    assert KernelError("delete", ENODEV).already_gone
    assert not KernelError("delete", EBUSY).already_gone


def test_attach_error_names_the_failed_undo_steps() -> None:
    clean = AttachError("move link 3", "EBUSY")
    not_undone = AttachError(
        "move link 3", "EBUSY", ["eth1 is not restored", "eth2 is not restored"]
    )

    assert str(clean) == "move link 3 failed: EBUSY"
    assert str(not_undone).endswith("; not undone: eth1 is not restored; eth2 is not restored")
    assert not_undone.undo_failures == ("eth1 is not restored", "eth2 is not restored")


def test_config_error_keeps_every_violation_in_order() -> None:
    error = ConfigError(["a: 1: rule", "b: 2: rule"])

    assert error.violations == ("a: 1: rule", "b: 2: rule")
    assert str(error) == "a: 1: rule; b: 2: rule"


def test_config_error_has_one_line_per_violation_and_other_errors_one_line() -> None:
    assert ConfigError(["a: 1: rule", "b: 2: rule"]).lines == ("a: 1: rule", "b: 2: rule")
    assert OwnedError("eth1 is held").lines == ("eth1 is held",)


class OwnTextError(OSError):
    """An OSError with a text of its own."""

    def __str__(self) -> str:
        """Return it."""
        return "state directory: make room there"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FileNotFoundError(2, "No such file", "/a"), "/a: No such file; check the path"),
        (
            OSError(EACCES, "Permission denied", "/a"),
            "/a: Permission denied; allow the access, or use another user",
        ),
        (OSError(ENOSPC, "No space left"), "No space left; make room there"),
        (OSError(EBADF, "Bad file descriptor", "/a"), "/a: Bad file descriptor"),
        (OSError("no errno"), "no errno"),
        (OwnTextError(ENOSPC, "No space left"), "state directory: make room there"),
    ],
)
def test_os_error_has_the_file_the_reason_and_the_remedy(error: OSError, text: str) -> None:
    assert os_error_text(error) == text
