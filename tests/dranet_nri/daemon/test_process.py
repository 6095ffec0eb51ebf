"""The daemon as a process: start, service and end."""

import asyncio
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dranet_nri.attach.allocations import PodAllocations
from dranet_nri.cli import main
from dranet_nri.daemon.process import NriDaemon
from dranet_nri.daemon.schedule import ReconcileSchedule
from dranet_nri.kernel.grace_periods import PARAMETER
from dranet_nri.model import Phase
from dranet_nri.nri.wire.messages import PodEventKind
from dranet_nri.settings import Settings
from dranet_nri.state.reader import AttachmentReader
from dranet_nri.state.store import AllocationStore
from tests.dranet_nri.daemon.daemon_bench import (
    CLAIM,
    ROOT,
    Site,
    connected,
    daemon,
    ended,
    launched,
    run_scenario,
    until_logged,
)
from tests.fakes.called import called
from tests.fakes.runtime import FakeRuntime, RuntimeConnection, RuntimeServer, pod_message

pytestmark = pytest.mark.process


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return fresh directories."""
    return Site(tmp_path)


def test_daemon_registers_for_four_events_and_answers_for_a_pod_without_a_claim(site: Site) -> None:
    async def scenario() -> None:
        async with RuntimeServer(str(site.socket)) as server:
            with daemon(site) as process:
                runtime = await connected(server, process)
                registration = runtime.runtime.registrations[0]
                assert (registration.plugin_name, registration.plugin_idx) == ("dra.net", "00")
                configured = await runtime.answer(runtime.runtime.configure())
                assert configured.status is None
                for kind in PodEventKind:
                    pod = pod_message("s1", netns="/run/netns/nosuch")
                    answer = await runtime.answer(runtime.runtime.pod_event(kind, pod))
                    assert answer.status is None
                process.send_signal(signal.SIGTERM)
                assert (await asyncio.to_thread(ended, process))[0] == 0

    run_scenario(scenario())
    assert site.attachment() is None


def test_host_network_pod_with_a_claim_is_refused_with_the_reason(site: Site) -> None:
    site.allocate("uid-s1")

    async def scenario() -> None:
        async with RuntimeServer(str(site.socket)) as server:
            with daemon(site) as process:
                runtime = await connected(server, process)
                call = runtime.runtime.pod_event(PodEventKind.RUN, pod_message("s1"))
                answer = await runtime.answer(call)
                assert answer.status is not None
                assert "remove hostNetwork or the claim" in answer.status.message

    run_scenario(scenario())
    record = site.attachment()
    assert record is not None
    assert record.phase is Phase.FAILED
    assert record.failure is not None
    assert "hostNetwork" in record.failure.message


def test_refusal_is_only_recorded_for_a_runtime_that_keeps_rejected_sandboxes(site: Site) -> None:
    site.allocate("uid-s1")

    async def scenario() -> None:
        async with RuntimeServer(str(site.socket)) as server:
            with daemon(site) as process:
                arrived = await server.connection()
                await arrived.handshake(version="v2.1.9")
                call = arrived.runtime.pod_event(PodEventKind.RUN, pod_message("s1"))
                assert (await arrived.answer(call)).status is None
                assert process.poll() is None

    run_scenario(scenario())
    record = site.attachment()
    assert record is not None
    assert record.failure is not None
    assert "hostNetwork" in record.failure.message


def test_claim_recorded_at_run_time_is_used_and_released(site: Site) -> None:
    async def scenario() -> None:
        async with RuntimeServer(str(site.socket)) as server:
            with daemon(site) as process:
                runtime = await connected(server, process)
                site.allocate("uid-s1")
                call = runtime.runtime.pod_event(PodEventKind.RUN, pod_message("s1"))
                assert (await runtime.answer(call)).status is not None
                call = runtime.runtime.pod_event(PodEventKind.STOP, pod_message("s1"))
                assert (await runtime.answer(call)).status is None
                with AttachmentReader(site.run / "attachments", owner=None) as records:
                    store = AllocationStore(site.root / "allocations")
                    store.remove(CLAIM.uid)
                    store.close()
                    await asyncio.to_thread(until_gone, records)
                assert process.poll() is None

    run_scenario(scenario())


def test_rcu_parameter_is_restored_after_a_crash_during_a_move(site: Site) -> None:
    parameter = site.root / PARAMETER
    site.run.mkdir()
    (site.run / PARAMETER).write_text("3")
    parameter.write_text("0")

    with daemon(site, "--rcu-parameters", "keep") as process:
        until_logged(process, "disconnected")
    assert parameter.read_text() == "0"

    with daemon(site, "--rcu-parameters", str(site.root)) as process:
        until_logged(process, "disconnected")
    assert parameter.read_text() == "3"


def test_plugin_serves_without_the_rcu_parameter_and_names_the_remedy(site: Site) -> None:
    with daemon(site, "--rcu-parameters", str(site.root / "absent")) as process:
        assert "make it writable" in until_logged(process, "moves of NICs take longer")
        until_logged(process, "disconnected")


def until_gone(records: AttachmentReader) -> None:
    """Wait until the claim's record is removed."""
    while records.refresh() is not None and records.get(CLAIM.uid) is not None:
        assert select.select([records.fileno()], [], [], 30)[0], "the record stays"


def test_changed_allocation_is_read_without_hook_and_reconcile(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        settled, read = asyncio.Event(), asyncio.Event()
        settle, refresh = ReconcileSchedule.settle, PodAllocations.refresh

        def noted(schedule: ReconcileSchedule, *, pending: bool) -> None:
            settle(schedule, pending=pending)
            settled.set()

        def counted(allocations: PodAllocations) -> None:
            refresh(allocations)
            if settled.is_set():
                read.set()

        monkeypatch.setattr(ReconcileSchedule, "settle", noted)
        monkeypatch.setattr(PodAllocations, "refresh", counted)
        settings = Settings(
            nri_socket=site.root / "absent.sock",
            run=site.run,
            allocations=site.root / "allocations",
            cdi=site.root / "cdi",
            resync_s=3600.0,
        )
        running = asyncio.create_task(NriDaemon(settings, {}).run())
        await settled.wait()
        assert not read.is_set()
        site.allocate("uid-s1")
        async with asyncio.timeout(30):
            await read.wait()
        running.cancel()
        await asyncio.wait({running})

    run_scenario(scenario())


def test_second_instance_takes_over_after_the_first_is_killed(site: Site) -> None:
    async def scenario() -> None:
        async with RuntimeServer(str(site.socket)) as server:
            with daemon(site) as first:
                await connected(server, first)
                with daemon(site) as second:
                    await asyncio.to_thread(until_logged, second, "another instance runs")
                    first.kill()
                    runtime = await connected(server, second)
                    call = runtime.runtime.pod_event(PodEventKind.RUN, pod_message("s1"))
                    assert (await runtime.answer(call)).status is None

    run_scenario(scenario())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda caught: caught.name)
def test_waiting_instance_ends_on_a_signal(site: Site, number: signal.Signals) -> None:
    site.run.mkdir()
    with (site.run / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with daemon(site) as process:
            until_logged(process, "another instance runs")

            process.send_signal(number)

            status, log = ended(process)
    assert status == 0
    assert "Traceback" not in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda caught: caught.name)
def test_instance_without_a_runtime_ends_on_a_signal(site: Site, number: signal.Signals) -> None:
    with daemon(site) as process:
        until_logged(process, "disconnected")

        process.send_signal(number)

        status, log = ended(process)
    assert status == 0
    assert "Traceback" not in log


def test_failed_startup_cleanup_does_not_prevent_serving(site: Site) -> None:
    orphaned = site.root / "cdi" / "dra.net-stray.json"
    orphaned.mkdir(parents=True)  # a spec that cannot be removed

    async def scenario() -> None:
        async with RuntimeServer(str(site.socket)) as server:
            with daemon(site) as process:
                runtime = await connected(server, process)
                line = await asyncio.to_thread(until_logged, process, "gate not closed")
                assert "stray" in line
                call = runtime.runtime.pod_event(PodEventKind.RUN, pod_message("s1"))
                assert (await runtime.answer(call)).status is None

    run_scenario(scenario())


def test_staged_gate_files_of_a_crash_are_removed_before_serving(site: Site) -> None:
    async def scenario() -> None:
        leftovers = (
            site.root / "cdi" / ".dra.net-gone.json.new",
            site.root / "cdi" / "dra.net-gone.json",
            site.run / "metadata" / "gone" / "nic" / "metadata.json",
        )
        for path in leftovers:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
        async with RuntimeServer(str(site.socket)) as server:
            with daemon(site) as process:
                await connected(server, process)

                assert not any(path.exists() for path in (*leftovers, leftovers[2].parents[1]))

    run_scenario(scenario())


def test_failed_hook_is_logged_and_only_a_bug_logs_a_traceback(site: Site) -> None:
    site.allocate("uid-s1")
    bug = "handler.HookHandler.is_unclaimed = lambda *_: 1 // 0"  # a refusal follows
    imports = "import sys; from dranet_nri import cli; from dranet_nri.hooks import handler"
    code = f"{imports}; {bug}; sys.exit(cli.main())"

    async def scenario() -> str:
        async with RuntimeServer(str(site.socket)) as server:
            with launched([sys.executable, "-c", code, *site.words()]) as process:
                runtime = await connected(server, process)
                call = runtime.runtime.pod_event(PodEventKind.RUN, pod_message("s1"))
                assert (await runtime.answer(call)).status is not None
                process.terminate()
                return (await asyncio.to_thread(ended, process))[1]

    log = asyncio.run(scenario())
    unexpected, refusal = (part.split("script=")[0] for part in log.split("hook failed")[1:])
    assert "ZeroDivisionError" in unexpected
    assert "remove hostNetwork or the claim" in refusal
    assert log.count("Traceback") == 1


def test_failed_removal_of_staged_files_is_logged_and_does_not_prevent_serving(site: Site) -> None:
    async def scenario() -> None:
        (site.root / "cdi" / ".dra.net-gone.json.new").mkdir(parents=True)
        async with RuntimeServer(str(site.socket)) as server:
            with daemon(site) as process:
                await connected(server, process)

                assert "Is a directory" in until_logged(process, "not cleared")

    run_scenario(scenario())


def test_launched_instance_serves_its_socket_and_ends_with_it(site: Site) -> None:
    async def scenario(process: subprocess.Popen[str], plugin_end: socket.socket) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=plugin_end)
        runtime = RuntimeConnection(reader, writer, FakeRuntime())
        await runtime.handshake()
        registration = runtime.runtime.registrations[0]
        assert (registration.plugin_name, registration.plugin_idx) == ("launched", "42")
        await runtime.close()
        status, _ = await asyncio.to_thread(ended, process)
        assert status == 0

    plugin_end, runtime_end = socket.socketpair()
    identity = {
        "NRI_PLUGIN_SOCKET": str(runtime_end.fileno()),
        "NRI_PLUGIN_NAME": "launched",
        "NRI_PLUGIN_IDX": "42",
    }
    with subprocess.Popen(
        site.command(),
        cwd=ROOT,
        env={**os.environ, **identity},
        pass_fds=(runtime_end.fileno(),),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        runtime_end.close()
        try:
            run_scenario(scenario(process, plugin_end))
        finally:
            process.kill()


def test_imported_modules_are_frozen_for_the_garbage_collector(site: Site) -> None:
    script = "sys.exit(cli.main() or gc.get_freeze_count() < 9)"
    command = [sys.executable, "-c", f"import gc, sys; from dranet_nri import cli; {script}"]

    async def scenario() -> None:
        async with RuntimeServer(str(site.socket)) as server:
            with launched([*command, *site.words()]) as process:
                await connected(server, process)
                process.terminate()
                assert (await asyncio.to_thread(ended, process))[0] == 0

    run_scenario(scenario())


def test_openssl_is_not_loaded(tmp_path: Path) -> None:
    arguments = ["status", "--run-dir", str(tmp_path), "--allocations-dir", str(tmp_path)]
    work = f"sys.argv[1:] = {arguments}; cli.main(); import dranet_nri.daemon.process"
    script = "print([name for name in ('_ssl', '_hashlib', 'hashlib') if sys.modules.get(name)])"
    command = [sys.executable, "-c", f"import sys; from dranet_nri import cli; {work}; {script}"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "['hashlib']"


@pytest.mark.parametrize(
    ("flags", "status", "output"),
    [
        (("--resync-period", "0"), 1, "--resync-period 0.0: must be above 0 seconds"),
        (("--resync-period", "nan"), 1, "--resync-period nan: must be above 0 seconds"),
        (("--resync-period", "soon"), 2, "argument --resync-period: invalid float value: 'soon'"),
        (("--memlock", "lots"), 1, "--memlock 'lots': must be bytes, 'unlimited' or 'keep'"),
        (("--memlock", "9" * 5000), 1, "must be bytes, 'unlimited' or 'keep'"),
        (("--memlock", str(2**64)), 1, "must be bytes, 'unlimited' or 'keep'"),
        (("--plugin-index", "7"), 1, "plugin index '7': must be two digits"),
        (("--plugin-name", "a b"), 1, "plugin name 'a b'"),
        (("--nri-socket", "/" + "a" * 200), 1, "longer than 107 bytes"),
        (("--run-dir", "/proc/nosuch/run"), 1, "/proc/nosuch"),
        (("--run-dir", "/dev/null/run"), 1, "/dev/null/run"),
        (("--proc", "/dev"), 1, "--proc /dev: is no procfs: /dev/sys/net/ipv4/conf/default is not"),
        (("--nosuch",), 2, "unrecognized arguments: --nosuch"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, tuple) else "",
)
def test_invalid_flag_is_refused_with_one_clear_line(
    site: Site, flags: tuple[str, ...], status: int, output: str
) -> None:
    done = called(main, *site.words(*flags), cwd=site.root)

    assert done.returncode == status
    lines = done.stderr.strip().splitlines()
    answer = [line for line in lines if not line.endswith("--help' shows the usage")][-1]
    assert answer.startswith("dranet-nri")
    assert output in answer
    assert "Traceback" not in done.stderr
