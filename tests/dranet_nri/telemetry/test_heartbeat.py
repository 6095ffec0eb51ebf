"""Heartbeat and metrics files of the plugin."""

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from errno import EBUSY, ENOSPC, EROFS
from pathlib import Path

import pytest

from dranet_nri.component.files import FileSystem
from dranet_nri.errors import (
    AttachError,
    KernelError,
    NoNetnsError,
    OutdatedError,
    OwnedError,
    RefusedError,
)
from dranet_nri.linux import inotify
from dranet_nri.model import ContainerClaim
from dranet_nri.nri.stub import ConnectionStatus
from dranet_nri.plan.ops import AddAddress, MoveLink
from dranet_nri.state import heartbeat
from dranet_nri.state.heartbeat import HungCall
from dranet_nri.telemetry.heartbeat import TelemetryWriter
from tests.fakes.node import Node
from tests.fakes.scrape import Labels, Scrape, counted

pytestmark = pytest.mark.process


NOW = 5000.0
ATTACHES = "dranet_nri_attach_duration_seconds_count"
DETACHES = "dranet_nri_detach_duration_seconds_count"
POD_ATTACHES = "dranet_driver_pod_attach_duration_seconds_count"
SANDBOXES = "dranet_driver_sandbox_attach_total"
JOBS = "dranet_driver_attach_jobs_running"
GATES = "dranet_nri_gate_openings_total"
CLAIMS = "dranet_nri_claims"
DEVICES = "dranet_nri_devices"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """Return a node with two NICs."""
    made = Node(tmp_path)
    yield made
    made.close()


@dataclass
class Rounds:
    """Repairs in the state that a test sets."""

    left: float = 60.0
    at_work: float | None = None

    def remaining_s(self) -> float:
        """Return seconds until the next round."""
        return self.left

    def at_work_s(self) -> float | None:
        """Return for how long one has been at work."""
        return self.at_work


def pulse(node: Node, rounds: Rounds | None = None, **status: bool | str) -> TelemetryWriter:
    """Return the pulse of a node's plugin."""
    reported = ConnectionStatus(**status)  # type: ignore[arg-type]
    return TelemetryWriter(
        FileSystem(),
        node.root / "run",
        node.plugin,
        rounds or Rounds(),
        lambda: reported,
        boot_s=lambda: NOW,
    )


def metrics_of(node: Node) -> Scrape:
    """Write a heartbeat; return the metrics in the file."""
    pulse(node).beat()
    return Scrape((node.root / "run" / "metrics.prom").read_text())


def increments(node: Node, before: Scrape) -> dict[tuple[str, Labels], float]:
    """Return the increments since then."""
    return metrics_of(node).changed(before)


# ----------------------------------------------------------------------- metrics_of


def test_attach_and_detach_are_counted_and_end_at_the_initial_values(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1, 2, containers=(ContainerClaim("app"),))
    before = metrics_of(node)

    node.run_pod(pod)

    attached = increments(node, before)
    assert attached == {
        counted(ATTACHES, result="attached"): 1,
        counted(POD_ATTACHES, result="attached"): 1,
        counted(GATES, result="opened"): 1,
        counted(CLAIMS, phase="attached"): 1,
        counted(DEVICES, state="in_pod"): 2,
    }

    node.stop_pod(pod)

    assert increments(node, before) == {
        counted(ATTACHES, result="attached"): 1,
        counted(POD_ATTACHES, result="attached"): 1,
        counted(GATES, result="opened"): 1,
        counted(DETACHES, result="restored"): 1,
        counted(CLAIMS, phase="restored"): 1,
    }


def test_reconcile_of_an_open_gate_counts_no_open(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1, containers=(ContainerClaim("app"),))
    node.run_pod(pod)
    before = metrics_of(node)

    node.synchronize(pod)

    assert increments(node, before) == {}


def test_refused_attach_is_not_counted_as_failed(node: Node) -> None:
    pod = replace(node.pod("web"), netns_path="")
    node.allocate(pod, 1)
    before = metrics_of(node)

    with pytest.raises(NoNetnsError):
        node.run_pod(pod)

    assert increments(node, before) == {
        counted(ATTACHES, result="refused"): 1,
        counted(POD_ATTACHES, result="failed"): 1,
        counted(CLAIMS, phase="failed"): 1,
        counted("dranet_nri_pending_repairs"): 1,
    }


def test_failed_attach_is_counted(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    before = metrics_of(node)
    node.kernel.fail_on(AddAddress, times=1)

    with pytest.raises(AttachError):
        node.run_pod(pod)

    assert increments(node, before)[counted(ATTACHES, result="failed")] == 1
    assert increments(node, before)[counted(POD_ATTACHES, result="failed")] == 1


def test_running_and_cancelled_attach_are_counted(node: Node) -> None:
    work = node.plugin.attacher.metrics.work
    before = metrics_of(node)

    async def attach() -> None:
        async with work.attaching():
            assert increments(node, before) == {counted(JOBS): 1}
            raise OutdatedError("its sandbox was stopped meanwhile")

    with pytest.raises(OutdatedError):
        asyncio.run(attach())
    assert increments(node, before) == {
        counted(ATTACHES, result="refused"): 1,
        counted(POD_ATTACHES, result="cancelled"): 1,
    }


def test_sandbox_is_counted_by_what_its_pod_has(node: Node) -> None:
    pods = node.pod("web"), node.pod("refused")  # both of one claim
    node.plugin.may_reject = False
    before = metrics_of(node)
    for nic, pod in enumerate(pods, 1):
        node.allocate(pod, nic)
        node.run_pod(pod)
        node.plugin.answered("RunPodSandbox", pod, "success", 0.001)

    found = increments(node, before)
    assert found[counted(SANDBOXES, result="attached")] == 1
    assert found[counted(SANDBOXES, result="failed")] == 1


def test_device_that_cannot_be_restored_is_counted_as_away_and_pending(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)
    before = metrics_of(node)
    node.kernel.fail_on(MoveLink)

    node.stop_pod(pod)

    found = increments(node, before)
    assert found[counted(DETACHES, result="unrestored")] == 1
    assert found[counted(DEVICES, state="unrestored")] == 1
    assert found[counted(DEVICES, state="in_pod")] == -1
    assert found[counted("dranet_nri_pending_repairs")] == 1


def test_broken_record_is_counted_until_it_is_quarantined_and_refuses_its_pod(
    node: Node,
) -> None:
    pod = node.pod("web")
    record = node.root / "allocations" / f"{node.allocate(pod, 1).claim.uid}.json"
    unusable = "dranet_nri_unusable_records"
    record.write_bytes(record.read_bytes()[:-1])

    with pytest.raises(RefusedError, match="cannot be used"):
        node.run_pod(pod)
    assert metrics_of(node).value(unusable) == 1

    node.allocations.refresh()

    assert not record.exists(), "the shim moved it aside"
    for _ in range(2):
        with pytest.raises(RefusedError, match="cannot be used"):
            node.run_pod(pod)
        assert metrics_of(node).value(unusable) == 0
        assert node.is_on_host(1)
        node.restart()


def test_failed_open_of_a_gate_is_counted(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1, containers=(ContainerClaim("app"),))
    before = metrics_of(node)
    node.disk.room = 2  # intent and result

    node.run_pod(pod)

    assert increments(node, before)[counted(GATES, result="failed")] == 1


def test_device_that_leaves_its_pod_is_counted_as_a_lost_claim(node: Node) -> None:
    pod = node.pod("web")
    node.allocate(pod, 1)
    node.run_pod(pod)
    before = metrics_of(node)
    node.kernel.remove_link("eth1", node.netns(pod))

    node.synchronize(pod)

    assert increments(node, before)[counted("dranet_nri_claims_lost_total")] == 1


def test_unreported_refusal_is_counted_by_its_reason(node: Node) -> None:
    node.plugin.may_reject = False
    pod = replace(node.pod("web"), netns_path="")
    node.allocate(pod, 1)
    before = metrics_of(node)

    node.run_pod(pod)

    refused = counted("dranet_nri_refusals_total", reason="no_namespace")
    assert increments(node, before)[refused] == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OwnedError("x"), "in_use"),
        (KernelError("move", EBUSY), "kernel"),
        (OSError("full"), "io"),
        (RuntimeError("oops"), "internal"),
    ],
)
def test_every_refusal_has_a_reason(node: Node, error: Exception, reason: str) -> None:
    before = metrics_of(node)

    node.plugin.attacher.metrics.hooks.refused(error)

    assert increments(node, before) == {counted("dranet_nri_refusals_total", reason=reason): 1}


def test_hung_threads_are_counted_and_listed_while_they_hang(node: Node) -> None:
    before = metrics_of(node)
    work = node.plugin.attacher.metrics.work
    key = object()

    work.add_hung(key, HungCall(NOW - 12, "default/nics", "move link eth1"))

    hung_threads = counted("dranet_nri_hung_threads")
    total = counted("dranet_nri_hung_threads_total")
    assert increments(node, before) == {hung_threads: 1, total: 1}
    assert heartbeat.load(node.root / "run").hung[0].step == "move link eth1"

    work.returned(key)

    assert increments(node, before) == {total: 1}
    assert heartbeat.load(node.root / "run").hung == ()


def test_metrics_are_written_only_when_they_change(node: Node) -> None:
    beating = pulse(node)
    beating.beat()
    path = node.root / "run" / "metrics.prom"
    first = path.stat().st_ino, path.stat().st_mtime_ns

    beating.beat()
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == first

    node.plugin.attacher.metrics.hooks.late.add("RunPodSandbox")
    beating.beat()
    assert (path.stat().st_ino, path.stat().st_mtime_ns) != first


# ----------------------------------------------------------------------- the heart


def test_unwritable_heartbeat_is_reported_once_and_ends_nothing(
    node: Node, capfd: pytest.CaptureFixture[str]
) -> None:
    beating = pulse(node)
    beating.run_dir = node.root / "file"
    beating.run_dir.touch()

    beating.beat()
    beating.beat()

    output = "".join(capfd.readouterr())
    assert output.count("heartbeat not written") == 1
    assert str(beating.run_dir) in output


def test_removed_directory_is_created_again_with_the_records_of_attached_devices(
    node: Node,
) -> None:
    pod, run = node.pod("web"), node.root / "run"
    node.allocate(pod, 1)
    node.run_pod(pod)
    shutil.rmtree(run)

    pulse(node).beat()

    assert run.stat().st_mode & 0o777 == 0o755
    assert (run / "metrics.prom").exists()
    assert heartbeat.load(run).beat_s == NOW
    node.restart()
    node.stop_pod(pod)
    assert node.is_on_host(1)


def test_directory_that_cannot_be_watched_is_reported_once_and_ends_nothing(
    node: Node, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(_name: str, *_arguments: int | bytes) -> int:
        raise OSError(ENOSPC, "No space left on device")

    beating = pulse(node)
    shutil.rmtree(node.root / "run")
    monkeypatch.setattr(inotify, "_call", refuse)
    beating.beat()
    beating.beat()

    output = "".join(capfd.readouterr())
    assert output.count("attachment records not written") == 1
    assert "raise the node's sysctl fs.inotify.max_user_watches" in output
    assert heartbeat.load(node.root / "run").beat_s == NOW


def test_heartbeat_is_updated_on_a_full_disk(node: Node, capfd: pytest.CaptureFixture[str]) -> None:
    run, now, rounds = node.root / "run", [NOW], Rounds()
    beating = pulse(node, rounds, synchronized=True)
    beating.fs, beating.boot_s = node.disk, lambda: now[0]
    beating.beat()
    node.disk.room = 0

    for rounds.left in (60.0, 12345.678, 5.0):
        now[0] += heartbeat.MAX_AGE_S
        beating.beat()

        found = heartbeat.load(run)
        assert found.beat_s == now[0]
        assert found.round_due_s == now[0] + rounds.left
        assert heartbeat.liveness_problems(found, now[0]) == ()
        assert heartbeat.liveness_problems(found, now[0] + heartbeat.MAX_AGE_S + 1), (
            "it stands still"
        )
    assert "heartbeat not written" not in "".join(capfd.readouterr())


def test_heartbeat_on_a_full_disk_lists_the_hung_threads_that_fit(node: Node) -> None:
    run, work = node.root / "run", node.plugin.attacher.metrics.work
    beating = pulse(node)
    beating.fs = node.disk
    beating.beat()
    size = (run / heartbeat.NAME).stat().st_size
    node.disk.room = 0
    for number in range(heartbeat.MAX_HUNG):
        work.add_hung(number, HungCall(NOW, str(number), "x" * 9999))

    beating.beat()

    reported = [hung.claim for hung in heartbeat.load(run).hung]
    assert reported == [str(number) for number in range(len(reported))]
    assert 0 < len(reported) < heartbeat.MAX_HUNG
    assert (run / heartbeat.NAME).stat().st_size == size
    for number in range(heartbeat.MAX_HUNG):
        work.returned(number)
    beating.beat()
    assert heartbeat.load(run).hung == ()


def test_outdated_metrics_are_removed_on_a_full_disk(
    node: Node, capfd: pytest.CaptureFixture[str]
) -> None:
    path, late = node.root / "run" / "metrics.prom", node.plugin.attacher.metrics.hooks.late
    beating = pulse(node)
    beating.fs = node.disk
    beating.beat()
    node.disk.room = 0
    beating.beat()
    assert path.exists(), "nothing has changed"

    for _ in range(2):
        late.add("RunPodSandbox")
        beating.beat()
        assert not path.exists()
    assert "".join(capfd.readouterr()).count("metrics not written") == 1

    node.disk.room = None
    beating.beat()
    missed = counted("dranet_nri_hook_deadline_misses_total", method="RunPodSandbox")
    assert Scrape(path.read_text()).values[missed] == 2


def test_removed_metrics_are_written_again(node: Node) -> None:
    path, beating = node.root / "run" / "metrics.prom", pulse(node)
    beating.beat()
    path.unlink()

    beating.beat()

    assert path.exists()


class ReadOnlyFs(FileSystem):
    """A file system that takes nothing."""

    def write(self, path: Path, data: bytes, mode: int, *, durable: bool) -> None:
        """See Fs."""
        raise OSError(EROFS, "Read-only file system", str(path))


def test_heartbeat_is_overwritten_in_place_only_on_a_full_disk(node: Node) -> None:
    beating = pulse(node)
    beating.beat()
    before = (node.root / "run" / heartbeat.NAME).read_bytes()
    beating.fs, beating.boot_s = ReadOnlyFs(), lambda: NOW + 5

    beating.beat()

    assert (node.root / "run" / heartbeat.NAME).read_bytes() == before


def test_long_texts_fit_into_the_heartbeat(node: Node) -> None:
    work = node.plugin.attacher.metrics.work
    for number in range(100):
        work.add_hung(number, HungCall(NOW, "c" * 9999, "\0" * 9999))

    pulse(node, last_error="\0" * 99_999).beat()

    assert len(heartbeat.load(node.root / "run").hung) == heartbeat.MAX_HUNG


def test_heartbeat_contains_the_state_of_the_repairs(node: Node) -> None:
    run = node.root / "run"

    pulse(node, Rounds(left=-3.0), synchronized=True).beat()
    found = heartbeat.load(run)
    assert (found.round_began_s, found.round_due_s, found.serving) == (None, NOW - 3, True)

    pulse(node, Rounds(at_work=5.0)).beat()
    found = heartbeat.load(run)
    assert (found.round_began_s, found.round_due_s, found.serving) == (NOW - 5, None, False)
