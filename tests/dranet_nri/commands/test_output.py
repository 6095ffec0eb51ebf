"""Output of commands for untrusted names and reasons."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dra_shim.cli import main as shim
from dranet_nri.cli import main as plugin
from dranet_nri.commands.inventory import print_inventory
from dranet_nri.component.findings import Finding, Severity, show_findings
from dranet_nri.component.output import naming, print_lines, shown, table
from dranet_nri.inventory import Inventory
from dranet_nri.model import Device, DeviceKey

pytestmark = pytest.mark.process


NASTY = "nic\x1b[2J\x07\r\udcff\u202e\u2028\nreally"
SHOWN = "nic\\x1b[2J\\x07\\r\\udcff\\u202e\\u2028\\nreally"


@pytest.mark.parametrize("text", ["", "eth0", "Straße 网卡", "a  b", "\\x1b"])
def test_printable_text_is_unchanged(text: str) -> None:
    assert shown(text) == text


def test_control_characters_are_escaped() -> None:
    assert shown(NASTY) == SHOWN
    assert shown("\x9b2J\x7f\xa0\t") == "\\x9b2J\\x7f\\xa0\\t"


def test_column_width_is_that_of_the_escaped_text() -> None:
    assert table([("A", "B"), ("\x1b", "x")]) == ("A     B", "\\x1b  x")


def inventory() -> None:
    """Print one with such names."""
    device = Device("nic", DeviceKey("", "", "nic"), (("dra.net/ifName", NASTY),), (NASTY,))
    print_inventory("table", Inventory((device,), ((NASTY, NASTY),)))


def doctor() -> None:
    """Print a report with such names."""
    show_findings("table", [Finding(NASTY, Severity.NOTE, NASTY)])


def plugins_error() -> None:
    """Have the plugin's program fail for a file of such a name."""
    plugin(["status", "--run-dir", "/dev/null/" + NASTY])


def shims_error() -> None:
    """Have the shim's program fail for a file of such a name."""
    shim(["validate", "/dev/null/" + NASTY])


@pytest.mark.parametrize("command", [inventory, doctor, plugins_error, shims_error])
def test_command_output_contains_no_control_characters(
    command: Callable[[], None], capfd: pytest.CaptureFixture[str]
) -> None:
    command()

    out, err = capfd.readouterr()
    printed = (out + err).replace("\n", "")
    assert printed.isprintable()
    assert "nic\\x1b[2J" in printed


def test_error_lines_are_printed_to_the_given_stream(capfd: pytest.CaptureFixture[str]) -> None:
    print_lines("one", "two", to=sys.stderr)

    assert capfd.readouterr() == ("", "one\ntwo\n")


def test_only_the_output_module_prints_text() -> None:
    root = Path(__file__).parents[3]
    files = [*root.glob("dranet_nri/**/*.py"), *root.glob("dra_shim/**/*.py")]
    printing = {
        str(file.relative_to(root))
        for file in files
        for line in file.read_text().splitlines()
        if "print(" in line or "stdout.write(" in line
    }

    assert printing == {"dranet_nri/component/output.py", "dranet_nri/facts/verbs.py"}


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_closed_reader_of_the_output_is_no_failure(unbuffered: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = subprocess.run(
        [sys.executable, "-m", "dranet_nri", "--version"], check=False, stdout=writer,
        stderr=subprocess.PIPE, env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )  # fmt: skip
    os.close(writer)

    assert (ended.returncode, ended.stderr) == (0, b"")


@pytest.mark.parametrize("command", ["--help", "--version", "completion bash"])
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("redirection", "reason"),
    [
        (">/dev/full", "standard output: No space left on device; make room there"),
        (">&-", "standard output or error is closed; redirect it, to /dev/null if unused"),
        (">&- 2>&-", ""),
    ],
)
def test_output_that_cannot_be_written_is_a_failure_in_one_line(
    command: str, unbuffered: str, redirection: str, reason: str
) -> None:
    line = f"{sys.executable} -m dranet_nri {command} {redirection}"
    ended = subprocess.run(
        ["/bin/sh", "-c", line], check=False, capture_output=True, text=True,
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
    )  # fmt: skip

    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (f"dranet-nri: {reason}\n" if reason else "")


@pytest.mark.parametrize(("named", "expected"), [(None, "out.svg"), ("other", "other")])
def test_error_keeps_the_name_of_its_own_file(named: str | None, expected: str) -> None:
    with pytest.raises(OSError) as caught, naming("out.svg"):  # noqa: PT011 - its file is compared
        raise OSError(errno.ENOSPC, "no space", named)

    assert caught.value.filename == expected
