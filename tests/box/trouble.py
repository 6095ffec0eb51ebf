"""Helpers of the reconcile tests, shared by the tiers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.box.attach import links_in
from tests.box.claims import Allocated, allocate, release_all
from tests.box.cri import Cri, Pod
from tests.box.nics import Nic
from tests.box.plugin import ALLOCATIONS, ATTACHMENTS, Plugin
from tests.box.waiting import wait_until

RESYNC_S: Final = "2" if os.environ.get("BOX_TIER") == "vm" else "0.5"


@pytest.fixture
def absent(cri: Cri) -> Iterator[Plugin]:
    """Return a plugin that sweeps often, not started.

    Whatever the test does, no plugin, claim, pod or broken record is left.
    """
    plugin = Plugin("--resync-period", RESYNC_S)
    yield plugin
    if not plugin.running:
        plugin.start(wait=False)
    try:
        cri.remove_all()  # while a plugin is there that restores NICs
    finally:
        plugin.stop()
        release_all()
    for directory in (ALLOCATIONS, ATTACHMENTS):
        shutil.rmtree(directory / "quarantine", ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def sure_of_addresses(nics: tuple[Nic, ...]) -> Iterator[None]:
    """Let links on the host not look for duplicates of their addresses, which takes 2 s a test."""
    conf = Path("/proc/sys/net/ipv6/conf")
    for name in ("default", *(nic.name for nic in nics)):
        (conf / name / "accept_dad").write_text("0")
    yield
    for name in ("default", *(nic.name for nic in nics)):
        (conf / name / "accept_dad").write_text("1")


@dataclass(frozen=True, slots=True)
class StatusReport:
    """Report of `dranet-nri status`.

    Attributes:
        states: of the claims' devices, by claim name.
        reasons: of unhealthy claims, by claim name.
        broken: of corrupt records in place, by claim UID.
        quarantined: of quarantined records, by claim UID.
        code: the exit status.
    """

    states: dict[str, str]
    reasons: dict[str, str]
    broken: dict[str, str]
    quarantined: dict[str, str]
    code: int


def reported() -> StatusReport:
    """Return the report of `dranet-nri status`."""
    done = subprocess.run(
        ("dranet-nri", "status", "--output", "json"), capture_output=True, text=True, check=False
    )
    document = json.loads(done.stdout)
    rows = [(row["claim"].partition("/")[2], row) for row in document["devices"]]
    return StatusReport(
        {name: row["state"] for name, row in rows},
        {name: row["reason"] for name, row in rows},
        document["corrupt"],
        document["quarantined"],
        done.returncode,
    )


def record_of(claim: str) -> Path:
    """Return the path of the claim's attachment record."""
    return ATTACHMENTS / f"{claim}-claim-uid.json"


def recorded(claim: str) -> dict[str, object]:
    """Return the claim's attachment record, {} without one; cheaper than to ask for status."""
    try:
        document: dict[str, object] = json.loads(record_of(claim).read_text())
    except FileNotFoundError:
        return {}
    return document


def until_phase(claim: str, phase: str) -> None:
    """Wait until the claim's record has the phase."""
    wait_until(f"claim {claim} to be {phase}", lambda: recorded(claim).get("phase") == phase)


def until_forgotten(claim: str) -> None:
    """Wait until a released claim has no record any more."""
    wait_until(f"the record of {claim} to go", lambda: not recorded(claim))


def claimed(name: str, *nics: Nic) -> Allocated:
    """Allocate the NICs to a claim and a pod of that name."""
    return allocate(name, nics, f"{name}-uid", pod=name)


def assert_usable(cri: Cri, name: str, nic: Nic) -> Pod:
    """Assert that a new pod with a new claim gets the NIC, with its address."""
    claim = claimed(name, nic)
    pod = cri.run_pod(name)
    container = cri.run_container(pod, "main", claim.spec())
    assert nic.cidr in links_in(cri, container)[nic.name]
    return pod


def held_namespaces(plugin: Plugin) -> int:
    """Return how many network namespaces the plugin keeps alive, besides that of the host."""
    process = Path(f"/proc/{plugin.pid}")
    host = process.joinpath("ns/net").stat()
    links = [link for link in process.joinpath("fd").iterdir() if link.exists()]
    return sum(
        str(link.readlink()).startswith(("net:", "/run/netns/", "/var/run/netns/"))
        and link.stat().st_ino != host.st_ino
        for link in links
    )
