"""Flags of the daemon."""

import argparse
from pathlib import Path

import pytest

from dranet_nri.errors import InvalidValueError
from dranet_nri.model import CharKind
from dranet_nri.settings import Settings, add_run_flags, settings_from

pytestmark = pytest.mark.process


UVERBS, RDMA_CM, UMAD, ISSM = CharKind


def parsed(*flags: str) -> Settings:
    parser = argparse.ArgumentParser()
    add_run_flags(parser)
    return settings_from(parser.parse_args(flags))


@pytest.mark.parametrize(
    ("flags", "kinds"),
    [
        pytest.param((), (UVERBS, RDMA_CM), id="the default"),
        pytest.param(
            ("--rdma-char-devices", "uverbs,rdma_cm,umad,issm"),
            (UVERBS, RDMA_CM, UMAD, ISSM),
            id="dranet's",
        ),
        pytest.param(("--rdma-char-devices", "umad, umad"), (UMAD,), id="spaces, repeated"),
        pytest.param(("--rdma-char-devices", ""), (), id="none"),
    ],
)
def test_rdma_char_devices_flag_selects_the_kinds(
    flags: tuple[str, ...], kinds: tuple[CharKind, ...]
) -> None:
    assert parsed(*flags).rdma_char_devices == kinds


@pytest.mark.parametrize("value", ["uverbs,ucm", "uverbs,", "UVERBS"])
def test_unknown_kind_is_refused_with_the_known_kinds(value: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parsed("--rdma-char-devices", value)

    assert str(caught.value) == (
        f"--rdma-char-devices {value!r}: must be of uverbs, rdma_cm, umad, issm, with commas"
    )


def test_help_text_describes_the_behaviour_of_dranet_and_the_default() -> None:
    parser = argparse.ArgumentParser()
    add_run_flags(parser)

    text = " ".join(parser.format_help().split())

    assert "dranet gives all four (default: uverbs,rdma_cm)" in text


def test_proc_directory_is_configurable() -> None:
    assert parsed("--proc", "/host/proc").proc == Path("/host/proc")
    assert parsed().proc == Path("/proc")


def test_rcu_parameters_are_configurable_and_can_be_kept() -> None:
    assert parsed().rcu == Path("/sys/module/rcutree/parameters")
    assert parsed("--rcu-parameters", "/host/rcu").rcu == Path("/host/rcu")
    assert parsed("--rcu-parameters", "keep").rcu is None


def test_node_addresses_are_read_from_the_environment_or_the_flag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert parsed().node_addresses == ()

    monkeypatch.setenv("NODE_ADDRESSES", "192.0.2.5,2001:DB8::5")

    assert parsed().node_addresses == ("192.0.2.5", "2001:db8::5")
    assert parsed("--node-addresses", " 192.0.2.7 ,").node_addresses == ("192.0.2.7",)


def test_invalid_node_address_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="--node-addresses 'eth0'"):
        parsed("--node-addresses", "eth0")


def test_uplink_and_include_flags_are_patterns() -> None:
    assert (parsed().uplinks, parsed().include) == ((), ())

    found = parsed("--uplink-interfaces", "eth0, bond*,", "--include", "wg0", "--include", "gre?")

    assert (found.uplinks, found.include) == (("eth0", "bond*"), ("wg0", "gre?"))


def test_vm_runtime_handlers_are_patterns_and_may_be_empty() -> None:
    assert parsed("--vm-runtimes", "sealed, vm-*").vm_handlers == ("sealed", "vm-*")
    assert parsed("--vm-runtimes", "").vm_handlers == ()
    assert "*kata*" in parsed().vm_handlers
