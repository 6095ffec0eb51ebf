"""`dra-shim doctor`: findings about the server, the kubelet and the records."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from dra_shim.cli import main
from dra_shim.commands.doctor_checks import (
    RIGHTS,
    kubelet_findings,
    record_findings,
    right_findings,
    server_findings,
    slice_findings,
)
from dra_shim.kubeapi import NODE, SLICE
from dra_shim.kubeletplugin import dra_services, sockets_of
from dra_shim.kubeletplugin.plugin import WATCH_S, KubeletPlugin
from dra_shim.resourceslice.layout import slice_name
from dra_shim.settings.common import StatePaths
from dranet_nri.component.findings import Finding, Severity
from dranet_nri.model import AllocatedDevice, Allocation, Failure, ObjectRef, Phase
from dranet_nri.state.store import AllocationStore, AttachmentStore
from tests.dra_shim.kubeapi.client_bench import talking
from tests.dra_shim.prepare.prepare_bench import attach
from tests.dranet_nri.nri.stub.plugin_bench import finish
from tests.fakes.called import called
from tests.fakes.clock import FakeClock
from tests.fakes.cluster import nic
from tests.fakes.exchange import Response

pytestmark = pytest.mark.process


NODE_1 = "node-1"
CLAIM = ObjectRef("ai", "nics", "u1")
POD = ObjectRef("ai", "train", "p1")
OTHER = ObjectRef("ai", "left", "u9")
T = TypeVar("T")


async def all_of(findings: AsyncIterator[T]) -> list[T]:
    return [finding async for finding in findings]


def slice_of(name: str, *devices: str) -> dict[str, Any]:
    pool = {"name": NODE_1, "generation": 1, "resourceSliceCount": 1}
    listed = [{"name": device} for device in devices]
    spec = {"driver": "dra.net", "nodeName": NODE_1, "pool": pool, "devices": listed}
    return {"metadata": {"name": name}, "spec": spec}


# --------------------------------------------------------------------------- the server


def test_doctor_reports_ok_for_a_complete_api_server() -> None:
    async def scenario() -> None:
        async with talking() as (_, api):
            await api.create(NODE, {"metadata": {"name": NODE_1}})
            await api.create(SLICE, slice_of(slice_name(NODE_1, 0), "a", "b"))

            assert await all_of(server_findings(api, NODE_1)) == [
                Finding("API server", Severity.OK, "serves resource.k8s.io/v1"),
                Finding("node", Severity.OK, NODE_1),
                Finding("slices", Severity.OK, "2 devices in 1 slices"),
            ]

    finish(scenario())


def test_warning_of_no_published_device_refers_to_the_inventory_and_the_log() -> None:
    (finding,) = slice_findings(NODE_1, ())

    assert finding.grade is Severity.WARNING
    assert "'dranet-nri inventory'" in finding.text
    assert "the shim's log ('devices excluded')" in finding.text


def test_missing_node_and_foreign_slice_are_reported() -> None:
    async def scenario() -> None:
        async with talking() as (_, api):
            await api.create(SLICE, slice_of("node-1-dra.net-x7k2p"))

            _, node, foreign, none = await all_of(server_findings(api, NODE_1))

            assert (node.grade, "--hostname-override" in node.text) == (Severity.BAD, True)
            assert (foreign.grade, "second driver" in foreign.text) == (Severity.WARNING, True)
            assert (none.grade, "dranet-nri inventory" in none.text) == (Severity.WARNING, True)

    finish(scenario())


def test_unreachable_api_server_is_the_only_finding_about_the_server() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            server.fail(None, times=9)

            (finding,) = await all_of(server_findings(api, NODE_1))

            assert (finding.subject, finding.grade) == ("API server", Severity.BAD)

    finish(scenario())


def test_forbidden_slice_list_is_reported() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            await api.create(NODE, {"metadata": {"name": NODE_1}})
            server.fail(
                Response(403, b"", {}), lambda request: request.path.endswith("/resourceslices")
            )

            *_, finding = await all_of(server_findings(api, NODE_1))

            assert (finding.subject, finding.grade) == ("slices", Severity.BAD)

    finish(scenario())


def test_missing_right_is_reported_with_its_effect() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            whole = await all_of(right_findings(api))
            server.denied = {("get", "pods"), ("patch", "resourceclaims/status")}
            missing = await all_of(right_findings(api))

        assert whole == [Finding("rights", Severity.OK, f"all {len(RIGHTS)} that are needed")]
        assert [(finding.grade, finding.text.partition(";")[0]) for finding in missing] == [
            (Severity.BAD, "may not get pods: no claim can be prepared"),
            (
                Severity.WARNING,
                "may not patch resourceclaims/status: claims do not show their devices",
            ),
        ]

    finish(scenario())


def test_failed_access_review_is_a_warning() -> None:
    async def scenario() -> None:
        async with talking() as (server, api):
            server.fail(Response(500, b"", {}))
            (finding,) = await all_of(right_findings(api))
            assert finding.grade is Severity.WARNING

    finish(scenario())


# --------------------------------------------------------------------------- the kubelet


class Idle:
    """A driver that has nothing to do."""

    async def prepare(self, claims: object, limit_s: float | None = None) -> dict[str, Any]:
        return {}

    async def unprepare(self, claims: object) -> dict[str, str]:
        return {}


def test_sockets_are_reported_with_and_without_a_server(tmp_path: Path) -> None:
    async def scenario() -> None:
        (tmp_path / "plugins_registry").mkdir()
        (tmp_path / "plugins").mkdir()
        sockets = sockets_of(tmp_path, "dra.net")
        (before,) = await all_of(kubelet_findings(sockets, tmp_path, ready=False))
        assert (before.grade, f"is {tmp_path} the kubelet's" in before.text) == (Severity.BAD, True)
        assert "--kubelet-root-dir (k0s: /var/lib/k0s/kubelet, microk8s: /var/snap" in before.text
        (other,) = await all_of(kubelet_findings(sockets, tmp_path, ready=True))
        assert (other.grade, f"{tmp_path} is not its" in other.text) == (Severity.WARNING, True)

        clock = FakeClock()
        plugin = KubeletPlugin(
            "dra.net", sockets, dra_services(Idle()), lambda _: None, sleep=clock.sleep
        )
        serving = asyncio.create_task(plugin.run())
        await clock.until_asleep(WATCH_S)
        (there,) = await all_of(kubelet_findings(sockets, tmp_path, ready=False))
        serving.cancel()
        await asyncio.wait((serving,))
        assert there.grade is Severity.OK
        assert f"below {tmp_path} answer" in there.text

    finish(scenario())


# --------------------------------------------------------------------------- the records


@pytest.fixture
def state(tmp_path: Path) -> StatePaths:
    return StatePaths(tmp_path / "state", tmp_path / "run")


def prepared(state: StatePaths) -> None:
    device = AllocatedDevice("nic", NODE_1, nic("a"))
    store = AllocationStore(state.allocations)
    store.put(Allocation(CLAIM, POD, (device,), "c0ffee", "boot1"))
    store.close()


def test_doctor_reports_that_no_claim_is_prepared(state: StatePaths) -> None:
    assert list(record_findings(state)) == [
        Finding("records", Severity.OK, "no claim is prepared on this node")
    ]
    assert not state.directory.exists(), "nothing is changed"


@pytest.mark.parametrize(
    ("phase", "grade"), [(Phase.ATTACHED, Severity.OK), (Phase.INTENT, Severity.NOTE)]
)
def test_claim_is_reported_with_its_pod_and_phase(
    state: StatePaths, phase: Phase, grade: Severity
) -> None:
    prepared(state)
    (waiting,) = record_findings(state)
    assert (waiting.subject, waiting.grade) == ("claim ai/nics", Severity.NOTE)

    attach(state, CLAIM, POD, "a", phase)

    assert list(record_findings(state)) == [
        Finding("claim ai/nics", grade, f"pod ai/train: {phase}")
    ]


def test_failed_claim_is_reported_with_its_failure(state: StatePaths) -> None:
    prepared(state)
    attach(state, CLAIM, POD, "a", Phase.FAILED)
    with AttachmentStore(state.attachments) as attachments:
        (record,) = attachments.records()
        failure = Failure("NetworkDeviceAttachFailed", "device a: is gone", 1)
        attachments.put(replace(record, failure=failure))

    (finding,) = record_findings(state)

    assert finding.grade is Severity.BAD
    assert finding.text.endswith("NetworkDeviceAttachFailed: device a: is gone")


def write_corrupt_record(directory: Path) -> Path:
    """Write a corrupt record into the directory; return its path."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "u7.json").write_text("{torn")
    return directory / "u7.json"


def test_unprepared_claim_with_devices_and_corrupt_record_are_reported(state: StatePaths) -> None:
    attach(state, OTHER, POD, "a", Phase.ATTACHED)
    record = write_corrupt_record(state.allocations)

    broken, quarantined = record_findings(state)

    assert (broken.subject, broken.grade) == ("record u7", Severity.BAD)
    assert f"({record}); delete its pod, or run dra-shim release --claim-uid u7" in broken.text
    assert (quarantined.subject, quarantined.grade) == ("claim ai/left", Severity.WARNING)
    assert quarantined.text.startswith("unprepared, and pod ai/train still has its devices")


def test_quarantined_record_is_a_note(state: StatePaths) -> None:
    write_corrupt_record(state.allocations)
    AllocationStore(state.allocations).close()

    (note,) = record_findings(state)

    assert (note.subject, note.grade) == ("record u7", Severity.NOTE)
    assert f"bytes kept in {state.allocations}/quarantine/u7.json.1; remove it when" in note.text


def test_both_corrupt_records_of_a_claim_are_reported(state: StatePaths) -> None:
    paths = [
        write_corrupt_record(directory) for directory in (state.allocations, state.attachments)
    ]

    found = list(record_findings(state))

    assert [finding.grade for finding in found] == [Severity.BAD, Severity.BAD]
    assert all(str(path) in entry.text for path, entry in zip(paths, found, strict=True))


def test_claim_with_a_corrupt_record_is_not_reported_as_unprepared(state: StatePaths) -> None:
    attach(state, CLAIM, POD, "a", Phase.ATTACHED)
    write_corrupt_record(state.allocations).rename(state.allocations / f"{CLAIM.uid}.json")

    _, quarantined = record_findings(state)

    assert (quarantined.subject, quarantined.grade) == ("claim ai/nics", Severity.WARNING)
    assert quarantined.text.startswith(
        "its record cannot be used, and pod ai/train still has its devices"
    )


# --------------------------------------------------------------------------- the command


def test_doctor_prints_all_findings_and_fails_if_one_is_bad(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("doctor", "--kubelet-root-dir", str(tmp_path), "--state-dir", str(tmp_path / "s"),
             "--run-dir", str(tmp_path / "r"), "--bind-address", "127.0.0.1:1")  # fmt: skip
    for name in [name for name in os.environ if "KUBERNETES" in name]:
        monkeypatch.delenv(name)
    runs = [called(main, *arguments, *flags, cwd=tmp_path) for flags in ((), ("--output", "json"))]
    table, document = runs
    assert [run.returncode for run in runs] == [1, 1], table.stderr
    found = [Finding(**finding) for finding in json.loads(document.stdout)["findings"]]
    assert [(finding.subject, finding.grade) for finding in found] == [
        ("API server", Severity.BAD),
        ("shim", Severity.WARNING),
        ("kubelet", Severity.BAD),
        ("records", Severity.OK),
    ]
    assert "127.0.0.1:1: no answer" in found[1].text
    assert len(table.stdout.splitlines()) == 1 + 4
