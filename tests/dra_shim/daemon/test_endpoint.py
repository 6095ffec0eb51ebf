"""The kubelet's sockets while the rest of the shim is loaded."""

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import grpc
import pytest

from dra_shim._gen.pluginregistration_v1_pb2 import InfoRequest, PluginInfo
from dra_shim.daemon.endpoint import KubeletEndpoint
from dra_shim.daemon.process import ShimDaemon
from dra_shim.kubeletplugin import Driver, Notice, probe, sockets_of
from dra_shim.kubeletplugin.registration import SERVICE
from dra_shim.pool import HealthReport, HealthSource
from dra_shim.prepare import PrepareResult
from dra_shim.settings.common import StatePaths
from dra_shim.settings.run import RunSettings
from dranet_nri.component.supervisor import WorkerFailed
from dranet_nri.errors import InvalidValueError
from dranet_nri.model import ObjectRef
from tests.dra_shim.kubeletplugin.kubelet_bench import short_directory
from tests.dranet_nri.nri.stub.plugin_bench import finish

__all__ = ["short_directory"]

pytestmark = pytest.mark.process

CLAIM = ObjectRef("default", "nics", "u1")


class Shim:
    """A wired shim that records its calls and notices."""

    def __init__(self) -> None:
        """Start with no calls and no notices."""
        self.limits: list[float | None] = []
        self.notices: list[Notice | WorkerFailed] = []

    @property
    def driver(self) -> Driver:
        """Return itself."""
        return self

    @property
    def devices(self) -> HealthSource:
        """Return itself."""
        return self

    async def prepare(
        self, claims: Sequence[ObjectRef], limit_s: float | None = None
    ) -> Mapping[str, PrepareResult]:
        """Prepare everything."""
        self.limits.append(limit_s)
        return {claim.uid: PrepareResult() for claim in claims}

    async def unprepare(self, claims: Sequence[ObjectRef]) -> Mapping[str, str]:
        """Unprepare everything."""
        return dict.fromkeys((claim.uid for claim in claims), "")

    async def health(self, results: int | None) -> HealthReport:
        """Report no device."""
        return HealthReport(0 if results is None else results + 1, ())

    def on_kubelet(self, notice: Notice) -> None:
        """Record the notice."""
        self.notices.append(notice)

    def failed(self, notice: WorkerFailed) -> None:
        """Record the notice."""
        self.notices.append(notice)


@pytest.fixture
def kubelet(short_directory: Path) -> Path:
    """Return the kubelet's directory."""
    for name in ("plugins", "plugins_registry"):
        (short_directory / name).mkdir()
    return short_directory


def test_calls_and_notices_wait_until_the_shim_is_wired(kubelet: Path) -> None:
    async def scenario() -> None:
        sockets = sockets_of(kubelet, "dra.net")
        endpoint = KubeletEndpoint(sockets)
        work = asyncio.create_task(endpoint.plugin.run())
        await endpoint.plugin.tried()
        endpoint.failed(WorkerFailed("kubelet", OSError("no"), 1.0))
        calls = [
            asyncio.create_task(endpoint.prepare([CLAIM], 45.0)),
            asyncio.create_task(endpoint.prepare([CLAIM])),
            asyncio.create_task(endpoint.unprepare([CLAIM])),
            asyncio.create_task(endpoint.health(None)),
        ]
        await asyncio.sleep(0)
        calls[0].cancel()  # the kubelet cancels this call; the other calls continue
        _, pending = await asyncio.wait(calls, timeout=0)
        waited = len(pending)
        shim = Shim()
        endpoint.wire(shim)
        answers = await asyncio.gather(*calls[1:])
        limited = await endpoint.prepare([CLAIM], 45.0)
        probe_error = await probe(sockets.registration)
        endpoint.failed(WorkerFailed("kubelet", OSError("again"), 2.0))
        work.cancel()
        await asyncio.wait({work})

        assert waited == 3
        assert answers == [{"u1": PrepareResult()}, {"u1": ""}, HealthReport(0, ())]
        assert limited == {"u1": PrepareResult()}
        assert probe_error == ""
        failures = [notice for notice in shim.notices if isinstance(notice, WorkerFailed)]
        assert [failure.retry_s for failure in failures] == [1.0, 2.0]

    finish(scenario())


def test_kubelet_sockets_are_open_before_the_shim_is_imported(
    kubelet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sockets = sockets_of(kubelet, "dra.net")
    results: list[bool | str] = []

    def load() -> None:
        results.append(sockets.registration.exists())
        with grpc.insecure_channel(f"unix:{sockets.registration}") as channel:
            call = channel.unary_unary(
                f"/{SERVICE}/GetInfo", InfoRequest.SerializeToString, PluginInfo.FromString
            )
            results.append(call(InfoRequest(), timeout=10.0).name)
        raise InvalidValueError("--filter: no expression")

    monkeypatch.setattr("dra_shim.daemon.process._load_shim", load)
    state = StatePaths(kubelet / "state", kubelet / "run")
    settings = RunSettings("node-1", kubelet_root=kubelet, state=state)

    with pytest.raises(InvalidValueError, match="no expression"):
        asyncio.run(ShimDaemon(settings, {}).run())

    assert results == [True, "dra.net"]
    assert not sockets.registration.exists()


def test_registration_imports_only_the_packages_it_needs(kubelet: Path) -> None:
    program = f"""
import asyncio, sys
from pathlib import Path
import dra_shim.cli, dra_shim.commands.run, dra_shim.daemon.process
from dra_shim.daemon.endpoint import KubeletEndpoint
from dra_shim.kubeletplugin import sockets_of

async def main():
    endpoint = KubeletEndpoint(sockets_of(Path({str(kubelet)!r}), "dra.net"))
    work = asyncio.create_task(endpoint.worker.run())
    await endpoint.plugin.tried()
    ours = {{name for name in sys.modules if name.startswith(("dra_shim.", "dranet_nri."))}}
    print(*sorted({{".".join(name.split(".")[:2]) for name in ours}}))
    print(*sorted({{"aiohttp", "cel_expr_python", "pyroute2"}} & sys.modules.keys()))
    work.cancel()
    await asyncio.wait({{work}})

asyncio.run(main())
"""

    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    shim = ("_gen", "cli", "cloud", "commands", "daemon", "kubeletplugin", "settings")
    nri = ("component", "errors", "facts", "model", "settings", "state")
    rooms = (*(f"dra_shim.{room}" for room in shim), *(f"dranet_nri.{room}" for room in nri))
    assert done.stdout.splitlines() == [" ".join(rooms), ""]
